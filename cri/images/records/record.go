package records

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// maxSecrets is up to how many secrets a record takes in that it learns of without
// a pull.
const maxSecrets = 100

// intent says that an image is being pulled.
type intent struct {
	metav1.TypeMeta `json:",inline"`
	Image           string `json:"image"`
}

// record says who has pulled an image.
type record struct {
	metav1.TypeMeta `json:",inline"`
	LastUpdatedTime metav1.Time `json:"lastUpdatedTime"`
	// ImageRef is the image's ID in the runtime.
	ImageRef string `json:"imageRef"`
	// CredentialMapping maps repositories, as written in specs, to who pulled
	// the image from there.
	CredentialMapping map[string]access `json:"credentialMapping,omitempty"`
}

// access is who may use an image.
type access struct {
	KubernetesSecrets         []secret         `json:"kubernetesSecrets,omitempty"`
	KubernetesServiceAccounts []serviceAccount `json:"kubernetesServiceAccounts,omitempty"`
	// NodePodsAccessible: every pod on the node. The lists are empty then.
	NodePodsAccessible bool `json:"nodePodsAccessible,omitempty"`
}

type secret struct {
	UID            string `json:"uid"`
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	CredentialHash string `json:"credentialHash"`
}

type serviceAccount struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// accessOf is who may use what was pulled with a credential; nil is an anonymous
// pull.
func accessOf(c *credentials.Credential) access {
	switch {
	case c == nil:
		return access{NodePodsAccessible: true}
	case c.Origin.Secret != nil:
		s := c.Origin.Secret
		return access{KubernetesSecrets: []secret{{s.UID, s.Namespace, s.Name, c.Hash()}}}
	case c.Origin.ServiceAccount != nil:
		return access{KubernetesServiceAccounts: []serviceAccount{serviceAccount(*c.Origin.ServiceAccount)}}
	default:
		return access{NodePodsAccessible: true}
	}
}

// merged returns the record with more access to a repository, and whether that is
// any different. The receiver stays as it is.
func (r record) merged(repository string, more access, now time.Time) (record, bool) {
	old, known := r.CredentialMapping[repository]
	joined := old.joined(more)
	if known && joined.equal(old) || joined.equal(access{}) {
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

func (a access) equal(b access) bool {
	return a.NodePodsAccessible == b.NodePodsAccessible && slices.Equal(a.KubernetesSecrets, b.KubernetesSecrets) &&
		slices.Equal(a.KubernetesServiceAccounts, b.KubernetesServiceAccounts)
}

// joined is the access of either. A secret is there once, with its newest hash.
func (a access) joined(b access) access {
	if a.NodePodsAccessible || b.NodePodsAccessible {
		return access{NodePodsAccessible: true}
	}
	out := access{
		KubernetesSecrets:         slices.Clone(a.KubernetesSecrets),
		KubernetesServiceAccounts: slices.Clone(a.KubernetesServiceAccounts),
	}
	for _, s := range b.KubernetesSecrets {
		i := slices.IndexFunc(out.KubernetesSecrets, s.same)
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

func (s secret) same(o secret) bool {
	return s.UID == o.UID && s.Namespace == o.Namespace && s.Name == o.Name
}

// opened tells whether one of a pod's credentials gives it access, and what is to
// be added to the record so that it is recognised without the other half next time:
// nothing when the secret is known with its hash.
func (a access) opened(found []credentials.Credential) (ok bool, learnt access) {
	for i := range found {
		mine := accessOf(&found[i])
		for _, s := range mine.KubernetesSecrets {
			if slices.Contains(a.KubernetesSecrets, s) {
				return true, access{}
			}
			if slices.ContainsFunc(a.KubernetesSecrets, func(o secret) bool {
				return o.CredentialHash != "" && o.CredentialHash == s.CredentialHash || s.same(o)
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
