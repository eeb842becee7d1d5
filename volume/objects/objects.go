package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// Kinds of volume.Object.
const (
	KindConfigMap      = "ConfigMap"
	KindSecret         = "Secret"
	KindServiceAccount = "ServiceAccount"
	KindTrustBundle    = "ClusterTrustBundle"
	KindCSIDriver      = "CSIDriver"
)

// ConfigMaps reads config maps. It is called at each sync of a pod with a config map, so
// implementations should cache. Methods are called concurrently. Callers do not change the
// returned objects.
type ConfigMaps interface {
	// ConfigMap returns a config map, or an error for which IsNotFound is true.
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// Secrets reads secrets, under the same conditions as ConfigMaps.
type Secrets interface {
	// Secret returns a secret, or an error for which IsNotFound is true.
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Tokens issues service account tokens. Methods are called concurrently.
type Tokens interface {
	// Token returns a token for the request.
	Token(ctx context.Context, r TokenRequest) (Token, error)
}

// TokenRequest describes the requested token.
type TokenRequest struct {
	Namespace, ServiceAccount string
	// Audiences are the token's recipients. Empty means the API server.
	Audiences []string
	// ExpirationSeconds is the requested validity in seconds.
	ExpirationSeconds int64
	// PodName and PodUID identify the pod that the token is bound to.
	PodName string
	PodUID  types.UID
}

// Token is a service account token.
type Token struct {
	Value string
	// Issued and Expires bound the validity. A zero Issued is unknown; a zero Expires means no
	// expiry.
	Issued, Expires time.Time
	// RefreshAt is the time for the next request. Zero means that a change of the object
	// triggers it.
	RefreshAt time.Time
}

// TrustBundles reads ClusterTrustBundles (KEP-3257). Methods are called concurrently.
type TrustBundles interface {
	// TrustBundle returns the PEM text of a bundle, or an error for which IsNotFound is true.
	TrustBundle(ctx context.Context, name string) (string, error)
	// TrustBundlesOf returns the PEM texts of a signer's bundles that the selector matches, in
	// any order. A nil selector matches none, an empty one all.
	TrustBundlesOf(ctx context.Context, signer string, selector *metav1.LabelSelector) ([]string, error)
}

// CSIDrivers reads CSIDriver objects. Methods are called concurrently. Callers do not change
// the returned objects.
type CSIDrivers interface {
	// CSIDriver returns an object, or an error for which IsNotFound is true. It must not block.
	// Any other error means that the objects are not available yet.
	CSIDriver(name string) (*storagev1.CSIDriver, error)
}

// NotFound returns the error for an object that does not exist. It wraps volume.ErrNotFound and
// has the text of the API server's error.
func NotFound(o volume.Object) error { return notFound{o} }

type notFound struct{ object volume.Object }

func (e notFound) Error() string {
	return fmt.Sprintf("%s %q not found", strings.ToLower(e.object.Kind), strings.TrimPrefix(e.object.Namespace+"/"+e.object.Name, "/"))
}

func (notFound) Unwrap() error { return volume.ErrNotFound }

// Status returns the status of the API server's error.
func (e notFound) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404, Message: e.Error()}
}

// IsNotFound reports whether err is for an object that does not exist: it wraps
// volume.ErrNotFound, or it is an API server's error with the reason NotFound.
func IsNotFound(err error) bool {
	if errors.Is(err, volume.ErrNotFound) {
		return true
	}
	var api interface{ Status() metav1.Status }
	return errors.As(err, &api) && api.Status().Reason == metav1.StatusReasonNotFound
}
