// node-network gives one node of the assembled node image its Pod network: addresses for its Pods, routes to the
// other nodes' Pods, masquerading, and NetworkPolicies, which it enforces with nftables.
//
// It stands in for kindnetd, whose parts no module proxy offers. IPv4 alone, as is the cluster.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// Changes that come together are one write.
	settle = 100 * time.Millisecond
	retry  = time.Second
	// What somebody else removed from the node is put back after this long.
	again = time.Minute
)

func main() {
	log.SetFlags(log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("NODE_NAME"), os.Getenv("POD_SUBNET"), os.Getenv("CONTROL_PLANE_ENDPOINT")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, node, subnet, endpoint string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if endpoint != "" {
		// The Service's address leads nowhere before kube-proxy has begun.
		config.Host = "https://" + endpoint
	}
	config.UserAgent = "node-network"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trimmed))
	nodes := factory.Core().V1().Nodes()
	pods := factory.Core().V1().Pods()
	namespaces := factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	changed := make(chan struct{}, 1)
	for _, informer := range []cache.SharedIndexInformer{
		nodes.Informer(), pods.Informer(), namespaces.Informer(), policies.Informer(),
	} {
		if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { log.Print(err) }); err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(told(changed)); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	applied := ""
	wait := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-time.After(wait):
			applied = ""
		}
		time.Sleep(settle)
		wait = again
		all := labels.Everything()
		cluster := Cluster{Node: node, Subnet: subnet}
		cluster.Pods, _ = pods.Lister().List(all)
		cluster.Namespaces, _ = namespaces.Lister().List(all)
		cluster.Policies, _ = policies.Lister().List(all)
		known, _ := nodes.Lister().List(all)
		if applied, err = apply(ctx, cluster, known, applied); err != nil {
			log.Print(err)
			wait = retry
		}
	}
}

// apply makes the node as the cluster says and returns the rules that are in force. The rules come first: a Pod gets
// no address before they are there.
func apply(ctx context.Context, cluster Cluster, nodes []*corev1.Node, applied string) (string, error) {
	rules, err := Ruleset(cluster)
	if err != nil {
		return applied, err
	}
	if rules != applied {
		if err := load(ctx, rules); err != nil {
			return "", err
		}
	}
	if err := route(cluster.Node, nodes); err != nil {
		return rules, err
	}
	return rules, configure(cluster.Node, nodes)
}

func told(changed chan<- struct{}) cache.ResourceEventHandler {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() },
		UpdateFunc: func(before, after any) {
			if !equality.Semantic.DeepEqual(before, after) {
				tell()
			}
		},
		DeleteFunc: func(any) { tell() },
	}
}

// trimmed keeps what is read here: memory does not follow the size of Pods, and a heartbeat is no change.
func trimmed(object any) (any, error) {
	switch whole := object.(type) {
	case *corev1.Pod:
		pod := &corev1.Pod{ObjectMeta: named(whole.ObjectMeta)}
		pod.Spec.NodeName, pod.Spec.HostNetwork = whole.Spec.NodeName, whole.Spec.HostNetwork
		pod.Status.Phase, pod.Status.PodIP = whole.Status.Phase, whole.Status.PodIP
		for _, container := range slices.Concat(whole.Spec.InitContainers, whole.Spec.Containers) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Ports: container.Ports})
		}
		return pod, nil
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: named(whole.ObjectMeta)}, nil
	case *networkingv1.NetworkPolicy:
		return &networkingv1.NetworkPolicy{ObjectMeta: named(whole.ObjectMeta), Spec: whole.Spec}, nil
	case *corev1.Node:
		node := &corev1.Node{ObjectMeta: named(whole.ObjectMeta)}
		node.Spec.PodCIDR, node.Status.Addresses = whole.Spec.PodCIDR, whole.Status.Addresses
		return node, nil
	}
	return object, nil
}

func named(whole metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: whole.Name, Namespace: whole.Namespace, UID: whole.UID, Labels: whole.Labels,
	}
}
