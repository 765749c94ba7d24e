// An operator for Memcached as kubebuilder's scaffold and its example have it: what ours is measured beside.
//
// It is meant to be as good as such operators are, and its objects are those that ours makes, so that
// both do the same work. Three settings are its own: how many workers, how many requests a second, and
// whether it makes the Deployment alone, as the example does.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	cachev1alpha1 "kindling.dev/bench/memcached/api/v1alpha1"
	"kindling.dev/bench/memcached/internal/controller"
)

func main() {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(cachev1alpha1.AddToScheme(scheme))

	var probeAddress, image string
	var workers, burst int
	var qps float64
	var deploymentOnly bool
	flag.StringVar(&probeAddress, "health-probe-bind-address", ":8081", "The address the probe endpoint binds to.")
	flag.StringVar(&image, "image", "memcached:1", "The image of memcached.")
	flag.IntVar(&workers, "max-concurrent-reconciles", 1, "How many resources are worked on at once.")
	flag.Float64Var(&qps, "kube-api-qps", 0, "Requests a second; 0 leaves controller-runtime's default.")
	flag.IntVar(&burst, "kube-api-burst", 0, "Requests at once; 0 leaves controller-runtime's default.")
	flag.BoolVar(&deploymentOnly, "deployment-only", false, "Make no children but the Deployment.")
	options := zap.Options{}
	options.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options)))
	log := ctrl.Log.WithName("setup")

	config := ctrl.GetConfigOrDie()
	if qps > 0 {
		config.QPS, config.Burst = float32(qps), burst
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: probeAddress,
	})
	if err != nil {
		log.Error(err, "Failed to start manager")
		os.Exit(1)
	}
	reconciler := &controller.MemcachedReconciler{
		Client:         mgr.GetClient(),
		Scheme:         mgr.GetScheme(),
		Recorder:       mgr.GetEventRecorder("memcached-controller"),
		Image:          image,
		DeploymentOnly: deploymentOnly,
		Workers:        workers,
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		log.Error(err, "Failed to create controller", "controller", "Memcached")
		os.Exit(1)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			log.Error(err, "Failed to set up probe")
			os.Exit(1)
		}
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Error(err, "Failed to run manager")
		os.Exit(1)
	}
}
