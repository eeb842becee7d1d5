package credentials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
)

// eventFailedToRetrieveImagePullSecret is the reason of the event for unusable pull secrets.
const eventFailedToRetrieveImagePullSecret = "FailedToRetrieveImagePullSecret"

// Secrets reads secrets. It must be safe for concurrent use and return when ctx ends. It may
// return cached secrets. A missing secret is an error. The result is not changed.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// PullSecretsConfig configures PullSecrets.
type PullSecretsConfig struct {
	// Secrets reads the secrets. Required.
	Secrets Secrets
	// Event records a Warning FailedToRetrieveImagePullSecret on the pod, with the names of the
	// secrets. Nil records none.
	Event podwright.EventFunc
	// Logger receives the reasons of that event. Nil discards.
	Logger *slog.Logger
}

// PullSecrets finds credentials in the secrets of a pod's spec.imagePullSecrets. Create it with
// NewPullSecrets. It is safe for concurrent use.
type PullSecrets struct{ cfg PullSecretsConfig }

func NewPullSecrets(cfg PullSecretsConfig) (*PullSecrets, error) {
	if err := fields.Required("credentials: PullSecretsConfig.Secrets", cfg.Secrets); err != nil {
		return nil, err
	}
	fields.Default(&cfg.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Logger(&cfg.Logger)
	return &PullSecrets{cfg: cfg}, nil
}

// Credentials implements Source. It skips a secret that cannot be read, does not parse, or is
// neither of type kubernetes.io/dockerconfigjson nor kubernetes.io/dockercfg. It then records an
// event and returns no error, because the remaining secrets, or an anonymous pull, may succeed.
// References without a name are ignored.
func (s *PullSecrets) Credentials(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error) {
	var rings []Keyring
	var unusable []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" {
			continue
		}
		ring, err := s.read(ctx, pod.Namespace, ref.Name)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading pull secret %q: %w", ref.Name, ctx.Err())
		}
		if err != nil {
			unusable = append(unusable, ref.Name)
			s.cfg.Logger.Warn("pull secret not usable", "pod", pod.Namespace+"/"+pod.Name, "secret", ref.Name, "err", err)
			continue
		}
		rings = append(rings, ring)
	}
	if len(unusable) > 0 {
		s.cfg.Event(podfacts.Reference(pod), v1.EventTypeWarning, eventFailedToRetrieveImagePullSecret, fmt.Sprintf(
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(unusable, ", ")))
	}
	return merge(rings...).Lookup(repository), nil
}

func (s *PullSecrets) read(ctx context.Context, namespace, name string) (Keyring, error) {
	secret, err := s.cfg.Secrets.Secret(ctx, namespace, name)
	if err != nil {
		return Keyring{}, err
	}
	if secret == nil {
		return Keyring{}, errors.New("not found")
	}
	ring, err := parseSecret(secret)
	if err != nil {
		return Keyring{}, err
	}
	return ring.from(Origin{Secret: &SecretRef{UID: string(secret.UID), Namespace: namespace, Name: name}}), nil
}

func parseSecret(secret *v1.Secret) (Keyring, error) {
	var field string
	switch secret.Type {
	case v1.SecretTypeDockerConfigJson:
		field = v1.DockerConfigJsonKey
	case v1.SecretTypeDockercfg:
		field = v1.DockerConfigKey
	default:
		return Keyring{}, fmt.Errorf("secrets of type %q have no registry credentials", secret.Type)
	}
	data := secret.Data[field]
	if len(data) == 0 {
		return Keyring{}, fmt.Errorf("data[%q] is empty", field)
	}
	ring, err := ParseDockerConfig(data)
	if err != nil {
		return Keyring{}, fmt.Errorf("data[%q]: %w", field, err)
	}
	return ring, nil
}
