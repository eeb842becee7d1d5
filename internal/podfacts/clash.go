package podfacts

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Clash is a path in a projected volume that was named before.
type Clash struct {
	// Field names it again, "sources[1].secret.items[0].path"; First is the field that
	// named it first.
	Field, First, Path string
}

// Clashes returns the paths that the sources of a projected volume name twice, as an API
// server refuses them: in the same spelling, and not those of tokens. Which files objects
// without items have is not known here.
func Clashes(sources []v1.VolumeProjection) (clashes []Clash) {
	first := map[string]string{}
	add := func(field, path string) {
		before, twice := first[path]
		switch {
		case path == "":
		case twice:
			clashes = append(clashes, Clash{field, before, path})
		default:
			first[path] = field
		}
	}
	for i, s := range sources {
		field := fmt.Sprintf("sources[%d]", i)
		if s := s.Secret; s != nil {
			addItems(field+".secret", s.Items, add)
		}
		if s := s.ConfigMap; s != nil {
			addItems(field+".configMap", s.Items, add)
		}
		if s := s.DownwardAPI; s != nil {
			for j := range s.Items {
				add(fmt.Sprintf("%s.downwardAPI.items[%d].path", field, j), s.Items[j].Path)
			}
		}
		if s := s.ClusterTrustBundle; s != nil {
			add(field+".clusterTrustBundle.path", s.Path)
		}
		if s := s.PodCertificate; s != nil {
			field += ".podCertificate"
			add(field+".credentialBundlePath", s.CredentialBundlePath)
			add(field+".keyPath", s.KeyPath)
			add(field+".certificateChainPath", s.CertificateChainPath)
		}
	}
	return clashes
}

func addItems(field string, items []v1.KeyToPath, add func(field, path string)) {
	for i := range items {
		add(fmt.Sprintf("%s.items[%d].path", field, i), items[i].Path)
	}
}
