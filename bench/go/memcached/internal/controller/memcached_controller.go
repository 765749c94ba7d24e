// Package controller reconciles Memcached, in the manner of kubebuilder's own example.
package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	cachev1alpha1 "kindling.dev/bench/memcached/api/v1alpha1"
)

const (
	finalizer = "cache.bench.kindling.dev/finalizer"

	available = "Available"
	degraded  = "Degraded"
)

// MemcachedReconciler reconciles Memcached objects.
type MemcachedReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
	Image    string
	// DeploymentOnly leaves out all children but the Deployment, which is all that tutorials make.
	DeploymentOnly bool
	Workers        int
}

// +kubebuilder:rbac:groups=cache.bench.kindling.dev,resources=memcacheds,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=cache.bench.kindling.dev,resources=memcacheds/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=cache.bench.kindling.dev,resources=memcacheds/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=core,resources=services,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile moves one Memcached closer to what its spec says.
func (r *MemcachedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := logf.FromContext(ctx)

	memcached := &cachev1alpha1.Memcached{}
	if err := r.Get(ctx, req.NamespacedName, memcached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	// Nothing is known of it yet, and its status says so.
	if len(memcached.Status.Conditions) == 0 {
		if err := r.say(ctx, memcached, available, metav1.ConditionUnknown, "Reconciling", "Starting reconciliation"); err != nil {
			return ctrl.Result{}, err
		}
	}

	if memcached.DeletionTimestamp == nil && controllerutil.AddFinalizer(memcached, finalizer) {
		if err := r.Update(ctx, memcached); err != nil {
			return ctrl.Result{}, err
		}
	}

	if memcached.DeletionTimestamp != nil {
		return ctrl.Result{}, r.finalize(ctx, memcached)
	}

	created := false
	for _, child := range r.children(memcached) {
		made, err := r.ensure(ctx, memcached, child)
		if err != nil {
			log.Error(err, "Failed to create a child", "kind", fmt.Sprintf("%T", child))
			message := fmt.Sprintf("Failed to create %T for the custom resource (%s): (%s)", child, memcached.Name, err)
			if err := r.say(ctx, memcached, available, metav1.ConditionFalse, "Reconciling", message); err != nil {
				return ctrl.Result{}, err
			}
			return ctrl.Result{}, err
		}
		created = created || made
	}
	if created {
		// What was made is looked at again when it changes, and in a minute at the latest.
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	}

	found := &appsv1.Deployment{}
	if err := r.Get(ctx, req.NamespacedName, found); err != nil {
		return ctrl.Result{}, err
	}
	size := sizeOf(memcached)
	if found.Spec.Replicas == nil || *found.Spec.Replicas != size {
		found.Spec.Replicas = &size
		if err := r.Update(ctx, found); err != nil {
			message := fmt.Sprintf("Failed to update the size for the custom resource (%s): (%s)", memcached.Name, err)
			if err := r.say(ctx, memcached, available, metav1.ConditionFalse, "Resizing", message); err != nil {
				return ctrl.Result{}, err
			}
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	}

	message := fmt.Sprintf("Deployment for custom resource (%s) with %d replicas created successfully", memcached.Name, size)
	return ctrl.Result{}, r.say(ctx, memcached, available, metav1.ConditionTrue, "Reconciling", message)
}

// ensure creates a child that is not there, and says whether it did.
func (r *MemcachedReconciler) ensure(ctx context.Context, memcached *cachev1alpha1.Memcached, child client.Object) (bool, error) {
	found, ok := child.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("%T is not an object", child)
	}
	err := r.Get(ctx, client.ObjectKeyFromObject(child), found)
	if err == nil || !apierrors.IsNotFound(err) {
		return false, err
	}
	if err := ctrl.SetControllerReference(memcached, child, r.Scheme); err != nil {
		return false, err
	}
	return true, r.Create(ctx, child)
}

// finalize says that the resource is going, does what has to be done first, and lets it go.
func (r *MemcachedReconciler) finalize(ctx context.Context, memcached *cachev1alpha1.Memcached) error {
	if !controllerutil.ContainsFinalizer(memcached, finalizer) {
		return nil
	}
	message := fmt.Sprintf("Performing finalizer operations for the custom resource: %s", memcached.Name)
	if err := r.say(ctx, memcached, degraded, metav1.ConditionUnknown, "Finalizing", message); err != nil {
		return err
	}
	r.Recorder.Eventf(memcached, nil, corev1.EventTypeWarning, "Deleting", "Delete",
		"Custom Resource %s is being deleted from the namespace %s", memcached.Name, memcached.Namespace)
	message = fmt.Sprintf("Finalizer operations for custom resource %s name were successfully accomplished", memcached.Name)
	if err := r.say(ctx, memcached, degraded, metav1.ConditionTrue, "Finalizing", message); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(memcached, finalizer)
	return r.Update(ctx, memcached)
}

// say sets a condition and writes the status.
func (r *MemcachedReconciler) say(
	ctx context.Context, memcached *cachev1alpha1.Memcached, kind string, status metav1.ConditionStatus, reason, message string,
) error {
	meta.SetStatusCondition(&memcached.Status.Conditions,
		metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	return r.Status().Update(ctx, memcached)
}

// SetupWithManager sets the controller up with the Manager.
func (r *MemcachedReconciler) SetupWithManager(mgr ctrl.Manager) error {
	builder := ctrl.NewControllerManagedBy(mgr).
		For(&cachev1alpha1.Memcached{}).
		Owns(&appsv1.Deployment{}).
		Named("memcached").
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers})
	if !r.DeploymentOnly {
		builder = builder.
			Owns(&corev1.Service{}).
			Owns(&networkingv1.NetworkPolicy{}).
			Owns(&policyv1.PodDisruptionBudget{})
	}
	return builder.Complete(r)
}
