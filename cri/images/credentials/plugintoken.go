package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kubelet/config/v1"
)

// ServiceAccounts provides a pod's service account to plugins. It must be safe for concurrent use
// and return when ctx ends.
type ServiceAccounts interface {
	// ServiceAccount returns a service account with its UID and annotations. The result is not
	// changed.
	ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	// Token returns a token of the pod's service account for the audience, bound to the pod.
	Token(ctx context.Context, pod *v1.Pod, audience string) (string, error)
}

// account is the service account data for a plugin, and its consequences for the response.
type account struct {
	// skip is true if the pod has no account and the plugin requires one.
	skip        bool
	token       string
	annotations map[string]string
	origin      Origin
	// key is the account's part of the cache key.
	key string
}

// account returns the plugin's data for a pod. It is empty unless the plugin has TokenAttributes.
func (p *plugin) account(ctx context.Context, pod *v1.Pod) (account, error) {
	want := p.TokenAttributes
	if want == nil {
		return account{}, nil
	}
	name := pod.Spec.ServiceAccountName
	if name == "" {
		return account{skip: *want.RequireServiceAccount}, nil
	}
	sa, err := p.accounts.ServiceAccount(ctx, pod.Namespace, name)
	if err != nil {
		return account{}, fmt.Errorf("service account %q: %w", name, err)
	}
	out := account{
		annotations: map[string]string{},
		origin:      Origin{ServiceAccount: &ServiceAccountRef{UID: string(sa.UID), Namespace: pod.Namespace, Name: name}},
	}
	for _, k := range want.RequiredServiceAccountAnnotationKeys {
		value, ok := sa.Annotations[k]
		if !ok {
			return account{}, fmt.Errorf("service account %q lacks the annotation %q", name, k)
		}
		out.annotations[k] = value
	}
	for _, k := range want.OptionalServiceAccountAnnotationKeys {
		if value, ok := sa.Annotations[k]; ok {
			out.annotations[k] = value
		}
	}
	if want.CacheType == cacheByToken { // otherwise a cached response needs none
		if err := p.needToken(ctx, pod, &out); err != nil {
			return account{}, err
		}
	}
	out.key = out.cacheKey(want.CacheType)
	return out, nil
}

// needToken sets the token of an account, if there is an account and it has no token yet.
func (p *plugin) needToken(ctx context.Context, pod *v1.Pod, a *account) error {
	if a.origin.ServiceAccount == nil || a.token != "" {
		return nil
	}
	token, err := p.accounts.Token(ctx, pod, p.TokenAttributes.ServiceAccountTokenAudience)
	if err == nil && token == "" {
		err = errors.New("empty token")
	}
	if err != nil {
		return fmt.Errorf("token of service account %q: %w", a.origin.ServiceAccount.Name, err)
	}
	a.token = token
	return nil
}

// cacheKey returns a hash, so that tokens do not stay in memory longer than needed.
func (a *account) cacheKey(cacheType configv1.ServiceAccountTokenCacheType) string {
	parts := []string{a.origin.ServiceAccount.UID, a.origin.ServiceAccount.Namespace, a.origin.ServiceAccount.Name}
	for _, k := range slices.Sorted(maps.Keys(a.annotations)) {
		parts = append(parts, k, a.annotations[k])
	}
	if cacheType == cacheByToken {
		parts = append(parts, a.token)
	}
	data, _ := json.Marshal(parts) // marshalling strings cannot fail
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
