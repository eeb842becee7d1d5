package podfacts

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Clash is a duplicate path in a projected volume.
type Clash struct {
	// Field is the later field with the path, "sources[1].secret.items[0].path"; First is the
	// first field with it.
	Field, First, Path string
}

// Clashes returns the duplicate paths of a projected volume's sources, as an API server refuses
// them: equal in spelling, and without the paths of tokens. The files of objects without items
// are unknown here and not compared.
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
