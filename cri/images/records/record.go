package records

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1alpha1 "k8s.io/kubelet/config/v1alpha1"

	"github.com/podwright/podwright/cri/images/credentials"
)

// The kinds and versions of the kubelet's files.
const (
	group      = "kubelet.config.k8s.io/"
	version    = group + "v1beta1"
	oldVersion = group + "v1alpha1"

	kindIntent = "ImagePullIntent"
	kindRecord = "ImagePulledRecord"
)

// maxSecrets is the number of secrets in a record at which Verify stops to add secrets without a
// pull.
const maxSecrets = 100

// The kubelet's types for its files. An intent is written before a pull. A record is written
// afterwards; it contains the access per repository.
type (
	intent         = configv1alpha1.ImagePullIntent
	record         = configv1alpha1.ImagePulledRecord
	access         = configv1alpha1.ImagePullCredentials
	secret         = configv1alpha1.ImagePullSecret
	serviceAccount = configv1alpha1.ImagePullServiceAccount
)

// accessOf returns the access that a pull with this credential gives; nil is an anonymous pull.
func accessOf(c *credentials.Credential) access {
	switch {
	case c == nil:
		return access{NodePodsAccessible: true}
	case c.Origin.Secret != nil:
		s := c.Origin.Secret
		return access{KubernetesSecrets: []secret{{UID: s.UID, Namespace: s.Namespace, Name: s.Name, CredentialHash: c.Hash()}}}
	case c.Origin.ServiceAccount != nil:
		return access{KubernetesServiceAccounts: []serviceAccount{serviceAccount(*c.Origin.ServiceAccount)}}
	default:
		return access{NodePodsAccessible: true}
	}
}

// merged returns the record with more access to a repository, and whether it differs from r. It
// does not change r.
func merged(r record, repository string, more access, now time.Time) (record, bool) {
	old, known := r.CredentialMapping[repository]
	joined := join(old, more)
	if known && equal(joined, old) || equal(joined, access{}) {
		return r, false
	}
	mapping := map[string]access{repository: joined}
	for k, v := range r.CredentialMapping {
		if k != repository {
			mapping[k] = v
		}
	}
	r.CredentialMapping, r.LastUpdatedTime = mapping, metav1.Time{Time: now}
	return r, true
}

func equal(a, b access) bool {
	return a.NodePodsAccessible == b.NodePodsAccessible && slices.Equal(a.KubernetesSecrets, b.KubernetesSecrets) &&
		slices.Equal(a.KubernetesServiceAccounts, b.KubernetesServiceAccounts)
}

// join returns the union of a and b. Each secret appears once, with its newest hash.
func join(a, b access) access {
	if a.NodePodsAccessible || b.NodePodsAccessible {
		return access{NodePodsAccessible: true}
	}
	out := access{
		KubernetesSecrets:         slices.Clone(a.KubernetesSecrets),
		KubernetesServiceAccounts: slices.Clone(a.KubernetesServiceAccounts),
	}
	for _, s := range b.KubernetesSecrets {
		i := slices.IndexFunc(out.KubernetesSecrets, func(o secret) bool { return same(s, o) })
		if i < 0 {
			out.KubernetesSecrets = append(out.KubernetesSecrets, s)
		} else {
			out.KubernetesSecrets[i] = s
		}
	}
	for _, s := range b.KubernetesServiceAccounts {
		if !slices.Contains(out.KubernetesServiceAccounts, s) {
			out.KubernetesServiceAccounts = append(out.KubernetesServiceAccounts, s)
		}
	}
	return out
}

func same(s, o secret) bool {
	return s.UID == o.UID && s.Namespace == o.Namespace && s.Name == o.Name
}

// opened reports whether one of a pod's credentials gives access. A match by hash or by
// coordinates alone is sufficient; added is then the access to add to the record, so that next
// time either matches. It is empty for a full match.
func opened(a access, found []credentials.Credential) (ok bool, added access) {
	for i := range found {
		mine := accessOf(&found[i])
		for _, s := range mine.KubernetesSecrets {
			if slices.Contains(a.KubernetesSecrets, s) {
				return true, access{}
			}
			if slices.ContainsFunc(a.KubernetesSecrets, func(o secret) bool {
				return o.CredentialHash != "" && o.CredentialHash == s.CredentialHash || same(s, o)
			}) {
				return true, mine
			}
		}
		for _, s := range mine.KubernetesServiceAccounts {
			if slices.Contains(a.KubernetesServiceAccounts, s) {
				return true, access{}
			}
		}
	}
	return false, access{}
}
