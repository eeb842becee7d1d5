package objects

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/volume/objects"
)

// Accounts reads service accounts for plug-ins that return credentials of image registries
// (KEP-4412).
type Accounts struct{ of *Objects }

var _ credentials.ServiceAccounts = Accounts{}

// Accounts returns the service accounts of this server.
func (o *Objects) Accounts() Accounts { return Accounts{o} }

// ServiceAccount implements credentials.ServiceAccounts. It reads the account at each call, so that
// it matches the account of the token.
func (a Accounts) ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return found(a.of.cfg.Client.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{}))
}

// pluginTokenSeconds is the lifetime of a token for a plug-in: the shortest that a server accepts.
const pluginTokenSeconds = 600

// Token implements credentials.ServiceAccounts.
func (a Accounts) Token(ctx context.Context, pod *v1.Pod, audience string) (string, error) {
	token, err := a.of.Token(ctx, objects.TokenRequest{
		Namespace: pod.Namespace, ServiceAccount: objects.Account(pod.Spec.ServiceAccountName), Audiences: []string{audience},
		ExpirationSeconds: pluginTokenSeconds, PodName: pod.Name, PodUID: pod.UID,
	})
	return token.Value, err
}
