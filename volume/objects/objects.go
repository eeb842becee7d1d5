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

// ConfigMaps gets config maps. It is asked at each sync of a pod that refers to one, so
// it answers from a cache. Methods are called concurrently; what they return is not
// changed.
type ConfigMaps interface {
	// ConfigMap returns a config map, or an error for which IsNotFound is true.
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// Secrets gets secrets. It is asked as ConfigMaps is.
type Secrets interface {
	// Secret returns a secret, or an error for which IsNotFound is true.
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Tokens gets tokens of service accounts. Methods are called concurrently.
type Tokens interface {
	// Token returns a token as asked for.
	Token(ctx context.Context, r TokenRequest) (Token, error)
}

// TokenRequest says which token is asked for.
type TokenRequest struct {
	Namespace, ServiceAccount string
	// Audiences are whom the token is for; none means the API server.
	Audiences []string
	// ExpirationSeconds is how long the token shall be valid.
	ExpirationSeconds int64
	// PodName and PodUID are the pod to which the token is bound.
	PodName string
	PodUID  types.UID
}

// Token is a token of a service account.
type Token struct {
	Value string
	// Issued and Expires bound its life. Zero: not known; it does not expire.
	Issued, Expires time.Time
	// RefreshAt is when to ask again; zero means when something tells of a change.
	RefreshAt time.Time
}

// TrustBundles gets ClusterTrustBundles (KEP-3257). Methods are called concurrently.
type TrustBundles interface {
	// TrustBundle returns the PEM text of the bundle of that name, or an error for
	// which IsNotFound is true.
	TrustBundle(ctx context.Context, name string) (string, error)
	// TrustBundlesOf returns those of a signer with labels that the selector matches,
	// in any order. A nil selector matches nothing, an empty one everything.
	TrustBundlesOf(ctx context.Context, signer string, selector *metav1.LabelSelector) ([]string, error)
}

// CSIDrivers gets the objects that describe CSI drivers. Methods are called
// concurrently; what they return is not changed.
type CSIDrivers interface {
	// CSIDriver returns an object, or an error for which IsNotFound is true. It answers
	// from memory; any other error says that it is not known yet.
	CSIDriver(name string) (*storagev1.CSIDriver, error)
}

// NotFound is the error of an object that does not exist. It wraps volume.ErrNotFound,
// and says what an API server's error says.
func NotFound(o volume.Object) error { return notFound{o} }

type notFound struct{ object volume.Object }

func (e notFound) Error() string {
	return fmt.Sprintf("%s %q not found", strings.ToLower(e.object.Kind), strings.TrimPrefix(e.object.Namespace+"/"+e.object.Name, "/"))
}

func (notFound) Unwrap() error { return volume.ErrNotFound }

// Status is that of an API server's error.
func (e notFound) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404, Message: e.Error()}
}

// IsNotFound tells whether an error says that an object does not exist: one that wraps
// volume.ErrNotFound, or an API server's.
func IsNotFound(err error) bool {
	if errors.Is(err, volume.ErrNotFound) {
		return true
	}
	var api interface{ Status() metav1.Status }
	return errors.As(err, &api) && api.Status().Reason == metav1.StatusReasonNotFound
}
