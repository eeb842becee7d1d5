package objects

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/volume"
)

// References returns the API objects that a pod refers to, also optionally: in its environment,
// volumes and image pulls. The result is sorted and has no duplicates. It is pure.
func References(pod *v1.Pod) []volume.Object {
	r := references{namespace: pod.Namespace, account: pod.Spec.ServiceAccountName}
	for _, ref := range pod.Spec.ImagePullSecrets {
		r.add(KindSecret, ref.Name)
	}
	for c := range podfacts.Containers(pod) {
		r.environment(c.EnvFrom, c.Env)
	}
	for i := range pod.Spec.Volumes {
		r.volume(&pod.Spec.Volumes[i].VolumeSource)
	}
	return r.sorted()
}

// VolumeReferences returns the API objects that one volume of a pod refers to.
func VolumeReferences(pod *v1.Pod, source *v1.VolumeSource) []volume.Object {
	r := references{namespace: pod.Namespace, account: pod.Spec.ServiceAccountName}
	r.volume(source)
	return r.sorted()
}

type references struct {
	namespace, account string
	found              []volume.Object
}

func (r *references) add(kind, name string) {
	if name != "" {
		r.found = append(r.found, volume.Object{Kind: kind, Namespace: r.namespace, Name: name})
	}
}

func (r *references) sorted() []volume.Object {
	slices.SortFunc(r.found, func(a, b volume.Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(r.found)
}

func (r *references) environment(from []v1.EnvFromSource, env []v1.EnvVar) {
	for _, f := range from {
		if f.ConfigMapRef != nil {
			r.add(KindConfigMap, f.ConfigMapRef.Name)
		}
		if f.SecretRef != nil {
			r.add(KindSecret, f.SecretRef.Name)
		}
	}
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			r.add(KindConfigMap, ref.Name)
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			r.add(KindSecret, ref.Name)
		}
	}
}

func (r *references) volume(v *v1.VolumeSource) {
	if v.ConfigMap != nil {
		r.add(KindConfigMap, v.ConfigMap.Name)
	}
	if v.Secret != nil {
		r.add(KindSecret, v.Secret.SecretName)
	}
	if v.CSI != nil {
		r.found = append(r.found, volume.Object{Kind: KindCSIDriver, Name: v.CSI.Driver})
		if ref := v.CSI.NodePublishSecretRef; ref != nil {
			r.add(KindSecret, ref.Name)
		}
	}
	if v.Projected == nil {
		return
	}
	for i := range v.Projected.Sources {
		r.projection(&v.Projected.Sources[i])
	}
}

func (r *references) projection(p *v1.VolumeProjection) {
	if p.ConfigMap != nil {
		r.add(KindConfigMap, p.ConfigMap.Name)
	}
	if p.Secret != nil {
		r.add(KindSecret, p.Secret.Name)
	}
	if p.ServiceAccountToken != nil {
		r.add(KindServiceAccount, Account(r.account))
	}
	if b := p.ClusterTrustBundle; b != nil {
		o := volume.Object{Kind: KindTrustBundle} // without a name: all bundles, because the signer's are unknown here
		if b.Name != nil {
			o.Name = *b.Name
		}
		r.found = append(r.found, o)
	}
}

// Account returns the effective service account of a pod: name, or "default" if it is empty.
func Account(name string) string { return cmp.Or(name, "default") }
