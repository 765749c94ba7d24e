package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
)

const (
	// containerd takes the first file in this folder; it is empty after each start of the node.
	configuration = "/run/cni/net.d/10-node-network.conflist"
	// Routes that bear this number are ours to remove.
	protocol = 201
	limit    = 30 * time.Second
)

// load hands a transaction to nft: all of it holds afterwards, or nothing has changed.
func load(ctx context.Context, rules string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, "nft", "-f", "-")
	command.Stdin = strings.NewReader(rules)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %.2000s", err, output)
	}
	return nil
}

// route leads to the Pods of the other nodes through these nodes, and nowhere else any more.
func route(name string, nodes []*corev1.Node) error {
	wanted := map[string]bool{}
	for _, node := range nodes {
		address := net.ParseIP(internal(node))
		_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
		if node.Name == name || address == nil || err != nil {
			continue
		}
		wanted[pods.String()] = true
		if err := netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: address, Protocol: protocol}); err != nil {
			return fmt.Errorf("route to %s by %s: %w", pods, address, err)
		}
	}
	ours, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	for _, old := range ours {
		if old.Dst != nil && !wanted[old.Dst.String()] {
			if err := netlink.RouteDel(&old); err != nil {
				return fmt.Errorf("route to %s: %w", old.Dst, err)
			}
		}
	}
	return nil
}

// configure tells containerd how this node's Pods get their addresses, once the node has a range for them.
func configure(name string, nodes []*corev1.Node) error {
	for _, node := range nodes {
		if node.Name != name || node.Spec.PodCIDR == "" {
			continue
		}
		text := conflist(node.Spec.PodCIDR, mtu(internal(node)))
		if there, err := os.ReadFile(configuration); err == nil && bytes.Equal(there, text) {
			return nil
		}
		// containerd reads whatever ends in .conflist, so this may not while it is half written.
		partial := filepath.Join(filepath.Dir(configuration), ".partial")
		if err := os.WriteFile(partial, text, 0o644); err != nil {
			return err
		}
		return os.Rename(partial, configuration)
	}
	return nil
}

// conflist connects each Pod to the node by a line of its own, not by a bridge: so what Pods of one node send each
// other is forwarded too, and meets the rules.
func conflist(pods string, mtu int) []byte {
	return fmt.Appendf(nil, `{
  "cniVersion": "0.4.0",
  "name": "node-network",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "mtu": %d,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni/addresses",
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, mtu, pods)
}

// mtu is that of the interface which has the node's address; 0 lets the kernel choose.
func mtu(address string) int {
	interfaces, _ := net.Interfaces()
	for _, each := range interfaces {
		addresses, _ := each.Addrs()
		for _, own := range addresses {
			if prefix, ok := own.(*net.IPNet); ok && prefix.IP.String() == address {
				return each.MTU
			}
		}
	}
	return 0
}

func internal(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP && !strings.Contains(address.Address, ":") {
			return address.Address
		}
	}
	return ""
}
