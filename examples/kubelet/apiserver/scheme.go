package apiserver

import (
	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	certv1 "k8s.io/api/certificates/v1"
	certv1beta1 "k8s.io/api/certificates/v1beta1"
	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Scheme returns a new scheme with the API groups that an agent uses.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1.AddToScheme, coordv1.AddToScheme, storagev1.AddToScheme, nodev1.AddToScheme,
		authv1.AddToScheme, authzv1.AddToScheme, certv1.AddToScheme, certv1beta1.AddToScheme,
	} {
		utilruntime.Must(add(scheme)) // fails only for conflicting types
	}
	return scheme
}

type codecs struct {
	negotiated runtime.NegotiatedSerializer
	parameters runtime.ParameterCodec
}

func newCodecs() codecs {
	scheme := Scheme()
	return codecs{serializer.NewCodecFactory(scheme).WithoutConversion(), runtime.NewParameterCodec(scheme)}
}
