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

// Origin is the source of a credential. At most one field is set. With neither, the credential is
// the node's, and every pod on the node may use it.
type Origin struct {
	// Secret is the pull secret that contains the credential.
	Secret *SecretRef
	// ServiceAccount is the account whose token a plugin used.
	ServiceAccount *ServiceAccountRef
}

// SecretRef identifies a secret.
type SecretRef struct{ UID, Namespace, Name string }

// ServiceAccountRef identifies a service account.
type ServiceAccountRef struct{ UID, Namespace, Name string }

// Credential is one way to authenticate to a registry.
type Credential struct {
	// Auth is the authentication for the runtime. It is shared and read-only.
	Auth   *runtimeapi.AuthConfig
	Origin Origin

	email string // part of Hash, as in the kubelet
}

// Hash returns 64 hexadecimal digits that identify the credential without disclosing it: the
// SHA-256 of the fields of Auth in the kubelet's JSON. Two credentials with the same hash give the
// same access. It is "" without Auth.
func (c Credential) Hash() string {
	if c.Auth == nil {
		return ""
	}
	// Marshalling strings cannot fail.
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

// Source finds credentials. Implementations must be safe for concurrent use.
type Source interface {
	// Credentials returns a pod's credentials for a repository, a name without tag and digest such
	// as "registry.example.com/team/app", in the order in which to try them. The result may be
	// empty.
	//
	// An error may accompany credentials. These are valid, and the error is reported only if none
	// of them works. An error never contains a secret.
	Credentials(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error)
}

// SourceFunc is a function that implements Source.
type SourceFunc func(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error)

// Credentials implements Source.
func (f SourceFunc) Credentials(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error) {
	return f(ctx, pod, repository)
}

// Chain returns a Source that calls sources in order and returns all their credentials. A failing
// source does not stop it; it stops when ctx has ended. Nil sources are skipped.
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
