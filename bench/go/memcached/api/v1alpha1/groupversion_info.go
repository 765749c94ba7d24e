// Package v1alpha1 is the API group of the measured operator.
// +kubebuilder:object:generate=true
// +groupName=cache.bench.kindling.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the objects here.
	GroupVersion = schema.GroupVersion{Group: "cache.bench.kindling.dev", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(GroupVersion, &Memcached{}, &MemcachedList{})
		metav1.AddToGroupVersion(scheme, GroupVersion)
		return nil
	})

	// AddToScheme makes the types known to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)
