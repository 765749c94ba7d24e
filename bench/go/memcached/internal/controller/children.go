package controller

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "kindling.dev/bench/memcached/api/v1alpha1"
)

const (
	portName    = "memcached"
	defaultPort = 11211
	userID      = 1001
)

func sizeOf(memcached *cachev1alpha1.Memcached) int32 {
	return ptr.Deref(memcached.Spec.Size, 1)
}

func portOf(memcached *cachev1alpha1.Memcached) int32 {
	if memcached.Spec.ContainerPort == 0 {
		return defaultPort
	}
	return memcached.Spec.ContainerPort
}

func labelsFor(name string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":       "memcached",
		"app.kubernetes.io/instance":   name,
		"app.kubernetes.io/managed-by": "MemcachedController",
	}
}

// children are the same objects, of the same shape, that the other operator makes for a Memcached.
func (r *MemcachedReconciler) children(memcached *cachev1alpha1.Memcached) []client.Object {
	if r.DeploymentOnly {
		return []client.Object{r.deployment(memcached)}
	}
	children := []client.Object{r.networkPolicy(memcached), r.service(memcached)}
	if sizeOf(memcached) > 1 {
		children = append(children, r.disruptionBudget(memcached))
	}
	return append(children, r.deployment(memcached))
}

func objectMeta(memcached *cachev1alpha1.Memcached) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      memcached.Name,
		Namespace: memcached.Namespace,
		Labels:    labelsFor(memcached.Name),
	}
}

func selector(memcached *cachev1alpha1.Memcached) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labelsFor(memcached.Name)}
}

func (r *MemcachedReconciler) networkPolicy(memcached *cachev1alpha1.Memcached) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: objectMeta(memcached),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *selector(memcached),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}},
				Ports: []networkingv1.NetworkPolicyPort{{
					Port:     ptr.To(intstr.FromString(portName)),
					Protocol: ptr.To(corev1.ProtocolTCP),
				}},
			}},
		},
	}
}

func (r *MemcachedReconciler) service(memcached *cachev1alpha1.Memcached) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: objectMeta(memcached),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  labelsFor(memcached.Name),
			Ports: []corev1.ServicePort{{
				Name:       portName,
				Port:       portOf(memcached),
				TargetPort: intstr.FromString(portName),
			}},
		},
	}
}

func (r *MemcachedReconciler) disruptionBudget(memcached *cachev1alpha1.Memcached) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: objectMeta(memcached),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			Selector:                   selector(memcached),
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

func (r *MemcachedReconciler) deployment(memcached *cachev1alpha1.Memcached) *appsv1.Deployment {
	memory := resource.MustParse("152Mi")
	probe := func(period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(portName)}},
			PeriodSeconds:    period,
			TimeoutSeconds:   1,
			FailureThreshold: failures,
		}
	}
	return &appsv1.Deployment{
		ObjectMeta: objectMeta(memcached),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(sizeOf(memcached)),
			Selector: selector(memcached),
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge:       ptr.To(intstr.FromInt32(1)),
					MaxUnavailable: ptr.To(intstr.FromInt32(0)),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labelsFor(memcached.Name)},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken:  ptr.To(false),
					EnableServiceLinks:            ptr.To(false),
					TerminationGracePeriodSeconds: ptr.To(int64(15)),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   ptr.To(true),
						RunAsUser:      ptr.To(int64(userID)),
						RunAsGroup:     ptr.To(int64(userID)),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew:           1,
						TopologyKey:       corev1.LabelHostname,
						WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector:     selector(memcached),
					}},
					Containers: []corev1.Container{{
						Name:    "memcached",
						Image:   r.Image,
						Command: []string{"memcached", "--memory-limit=64", "-o", "modern", "-v"},
						Ports:   []corev1.ContainerPort{{Name: portName, ContainerPort: portOf(memcached)}},
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: memory},
							Limits:   corev1.ResourceList{corev1.ResourceMemory: memory},
						},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: ptr.To(false),
							Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
							ReadOnlyRootFilesystem:   ptr.To(true),
						},
						TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
						Lifecycle: &corev1.Lifecycle{
							PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}},
						},
						ReadinessProbe: probe(1, 3),
						LivenessProbe:  probe(10, 6),
					}},
				},
			},
		},
	}
}
