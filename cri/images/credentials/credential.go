package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Origin says whose a credential is. At most one of the two is set; with neither
// it is the node's, and every pod on the node may use it.
type Origin struct {
	// Secret is the pull secret that it comes from.
	Secret *SecretRef
	// ServiceAccount is whose token a plugin got it for.
	ServiceAccount *ServiceAccountRef
}

// SecretRef are the coordinates of a secret.
type SecretRef struct{ UID, Namespace, Name string }

// ServiceAccountRef are the coordinates of a service account.
type ServiceAccountRef struct{ UID, Namespace, Name string }

// Credential is one way to authenticate to a registry.
type Credential struct {
	// Auth is what the runtime is given. It is shared and for reading only.
	Auth *runtimeapi.AuthConfig
	// Origin says whose it is.
	Origin Origin

	email string // counts in Hash, as it does for the kubelet
}

// Hash identifies what the credential shows the registry, as 64 hexadecimal
// digits, without telling it: the SHA-256 of the fields of Auth as the kubelet
// writes them in JSON. Two credentials with one hash open the same doors. It is
// "" without Auth.
func (c Credential) Hash() string {
	if c.Auth == nil {
		return ""
	}
	// Text always encodes.
	data, _ := json.Marshal(struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		Auth          string `json:"auth,omitempty"`
		Email         string `json:"email,omitempty"`
		ServerAddress string `json:"serveraddress,omitempty"`
		IdentityToken string `json:"identitytoken,omitempty"`
		RegistryToken string `json:"registrytoken,omitempty"`
	}{
		c.Auth.Username, c.Auth.Password, c.Auth.Auth, c.email,
		c.Auth.ServerAddress, c.Auth.IdentityToken, c.Auth.RegistryToken,
	})
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Source finds credentials. Implementations are safe for concurrent use.
type Source interface {
	// Credentials returns what a pod may show the registry for a repository, a
	// name without tag and digest such as "registry.example.com/team/app", in
	// the order in which to try it. None means that the source knows none.
	//
	// An error may come along with credentials: they are as good as any, and
	// the error is told if none of them works. It never contains a secret.
	Credentials(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error)
}

// SourceFunc is a function as a Source.
type SourceFunc func(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error)

// Credentials implements Source.
func (f SourceFunc) Credentials(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error) {
	return f(ctx, pod, repository)
}

// Chain asks sources one after the other and returns what all of them know, in
// their order. One that fails keeps nobody from the rest; once ctx has ended the
// rest is not asked. nil sources are left out.
func Chain(sources ...Source) Source { return chain(sources) }

type chain []Source

func (c chain) Credentials(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error) {
	var out []Credential
	var errs []error
	for _, source := range c {
		if source == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		found, err := source.Credentials(ctx, pod, repository)
		out, errs = append(out, found...), append(errs, err)
	}
	return out, errors.Join(errs...)
}
