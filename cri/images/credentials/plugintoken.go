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

// ServiceAccounts provides what plugins may get of a pod's service account. It is
// safe for concurrent use and returns when ctx ends.
type ServiceAccounts interface {
	// ServiceAccount returns a service account; its UID and annotations count.
	// It is not changed.
	ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	// Token returns a token of the pod's service account for the audience, bound
	// to the pod.
	Token(ctx context.Context, pod *v1.Pod, audience string) (string, error)
}

// account is what a plugin is told of a pod's service account, and what that
// means for its answer.
type account struct {
	// skip says that the pod has none and the plugin needs one.
	skip        bool
	token       string
	annotations map[string]string
	origin      Origin
	// key tells answers for one account from those for another.
	key string
}

// account returns what the plugin gets for a pod, nothing unless it asks for it.
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
	if want.CacheType == cacheByToken { // else a cached answer needs none
		if err := p.needToken(ctx, pod, &out); err != nil {
			return account{}, err
		}
	}
	out.key = out.cacheKey(want.CacheType)
	return out, nil
}

// needToken gets the token of an account, if there is one and it has none yet.
func (p *plugin) needToken(ctx context.Context, pod *v1.Pod, a *account) error {
	if a.origin.ServiceAccount == nil || a.token != "" {
		return nil
	}
	token, err := p.accounts.Token(ctx, pod, p.TokenAttributes.ServiceAccountTokenAudience)
	if err == nil && token == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("token of service account %q: %w", a.origin.ServiceAccount.Name, err)
	}
	a.token = token
	return nil
}

// cacheKey is a hash, so that no token stays in memory for longer than needed.
func (a *account) cacheKey(cacheType configv1.ServiceAccountTokenCacheType) string {
	parts := []string{a.origin.ServiceAccount.UID, a.origin.ServiceAccount.Namespace, a.origin.ServiceAccount.Name}
	for _, k := range slices.Sorted(maps.Keys(a.annotations)) {
		parts = append(parts, k, a.annotations[k])
	}
	if cacheType == cacheByToken {
		parts = append(parts, a.token)
	}
	data, _ := json.Marshal(parts) // text always encodes
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
