package apitest

import (
	"strings"

	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	certv1 "k8s.io/api/certificates/v1"
	certv1beta1 "k8s.io/api/certificates/v1beta1"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an object that the server can store.
type Object interface {
	runtime.Object
	metav1.Object
}

// kinds returns the kinds that the server serves, by group, version and resource.
func kinds(scheme *runtime.Scheme) map[schema.GroupVersionResource]schema.GroupVersionKind {
	out := map[schema.GroupVersionResource]schema.GroupVersionKind{}
	for version, names := range map[schema.GroupVersion][]string{
		v1.SchemeGroupVersion: {
			"Pod", "Node", "Event", "Secret", "ConfigMap", "Service", "ServiceAccount", "PersistentVolume", "PersistentVolumeClaim",
		},
		coordv1.SchemeGroupVersion:     {"Lease"},
		storagev1.SchemeGroupVersion:   {"CSIDriver", "CSINode", "VolumeAttachment"},
		nodev1.SchemeGroupVersion:      {"RuntimeClass"},
		certv1.SchemeGroupVersion:      {"ClusterTrustBundle", "CertificateSigningRequest"},
		certv1beta1.SchemeGroupVersion: {"ClusterTrustBundle"},
	} {
		for _, name := range names {
			plural := strings.ToLower(name) + "s"
			if strings.HasSuffix(name, "Class") {
				plural = strings.ToLower(name) + "es"
			}
			if gvk := version.WithKind(name); scheme.Recognizes(gvk) {
				out[version.WithResource(plural)] = gvk
			}
		}
	}
	out[authv1.SchemeGroupVersion.WithResource("tokenreviews")] = authv1.SchemeGroupVersion.WithKind("TokenReview")
	out[authzv1.SchemeGroupVersion.WithResource("subjectaccessreviews")] = authzv1.SchemeGroupVersion.WithKind("SubjectAccessReview")
	return out
}
