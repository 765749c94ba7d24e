// node-storage gives the assembled node image its volumes: a folder of one node for each claim.
//
// It stands in for local-path-provisioner, which runs a Pod to make a folder and another to remove it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	provisioner  = "kindling.dev/node-storage"
	selectedNode = "volume.kubernetes.io/selected-node"
)

// folders are the volumes of one node; each has the name of its PersistentVolume.
type folders struct{ root, node string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	config, err := rest.InClusterConfig()
	if err != nil {
		klog.Fatal(err)
	}
	config.UserAgent = "node-storage"
	// One by one, they would take turns where many claims come at once.
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		klog.Fatal(err)
	}
	made := &folders{root: os.Getenv("ROOT"), node: os.Getenv("NODE_NAME")}
	controller.NewProvisionController(
		ctx, client, provisioner, made,
		// Each node has its own, and does what is to be done on its node.
		controller.LeaderElection(false),
		// What begins before the API server can be reached goes on once it can.
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
	).Run(ctx)
}

// ShouldProvision is for the node that the scheduler chose. A claim of a class that waits for no Pod has none.
func (f *folders) ShouldProvision(_ context.Context, claim *corev1.PersistentVolumeClaim) bool {
	node := claim.Annotations[selectedNode]
	return node == f.node || node == ""
}

// Provision makes the folder. What it returns has the shape that local-path-provisioner gives a volume.
func (f *folders) Provision(
	_ context.Context, options controller.ProvisionOptions,
) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if err := f.refused(options); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	path := f.path(options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	// Whatever the umask: a Pod writes as the user it has.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	kind := corev1.HostPathDirectoryOrCreate
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			VolumeMode:                    options.PVC.Spec.VolumeMode,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: options.PVC.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
			},
			NodeAffinity: f.here(),
		},
	}, controller.ProvisioningFinished, nil
}

func (f *folders) refused(options controller.ProvisionOptions) error {
	if options.PVC.Spec.Selector != nil {
		return fmt.Errorf("a claim of this class can have no selector")
	}
	for _, mode := range options.PVC.Spec.AccessModes {
		if mode != corev1.ReadWriteOnce && mode != corev1.ReadWriteOncePod {
			return fmt.Errorf("a folder of one node can be %s or %s, and not %s",
				corev1.ReadWriteOnce, corev1.ReadWriteOncePod, mode)
		}
	}
	return nil
}

// ShouldDelete is for the volumes of this node.
func (f *folders) ShouldDelete(_ context.Context, volume *corev1.PersistentVolume) bool {
	found := volume.Spec.HostPath
	return found != nil && found.Path == f.path(volume.Name) &&
		equality.Semantic.DeepEqual(volume.Spec.NodeAffinity, f.here())
}

func (f *folders) path(volume string) string { return filepath.Join(f.root, volume) }

func (f *folders) here() *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{f.node},
			}},
		}},
	}}
}

// Delete removes the folder with all that is in it.
func (f *folders) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	return os.RemoveAll(f.path(volume.Name))
}
