// A CSI driver for the tests: volumes that really have a size, and really grow while they are in use.
//
// A volume is a tmpfs of its size, mounted from its creation to its deletion; the Pods that use it have bind
// mounts of it. So its data outlives Pods, and this driver, but not the node. For one node alone.
package main

import (
	"errors"
	"flag"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	name := flag.String("name", "", "the driver's name")
	node := flag.String("node", "", "the name of this node")
	kubelet := flag.String("kubelet", "/var/lib/kubelet", "the kubelet's folder, in which mounts reach the node")
	most := flag.Int64("most", 0, "the largest size of a volume, in bytes; 0: as large as the node's memory")
	flag.Parse()
	if *name == "" || *node == "" {
		log.Fatal("-name and -node are required")
	}
	folder := filepath.Join(*kubelet, "plugins", *name)
	endpoint := filepath.Join(folder, "csi.sock")
	driver := &driver{name: *name, node: *node, folder: filepath.Join(folder, "volumes"), most: *most}
	if err := os.MkdirAll(driver.folder, 0o750); err != nil {
		log.Fatal(err)
	}

	plugin := grpc.NewServer()
	csi.RegisterIdentityServer(plugin, driver)
	csi.RegisterControllerServer(plugin, driver)
	csi.RegisterNodeServer(plugin, driver)
	registry := grpc.NewServer()
	registration.RegisterRegistrationServer(registry, &registrar{name: *name, endpoint: endpoint})

	ended := make(chan error)
	go serve(plugin, endpoint, ended)
	go serve(registry, filepath.Join(*kubelet, "plugins_registry", *name+"-reg.sock"), ended)
	log.Fatal(<-ended)
}

func serve(server *grpc.Server, socket string, ended chan<- error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		ended <- err
		return
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		ended <- err
		return
	}
	ended <- server.Serve(listener)
}
