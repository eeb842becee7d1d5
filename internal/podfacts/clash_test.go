package podfacts

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestClashes(t *testing.T) {
	items := func(paths ...string) (out []v1.KeyToPath) {
		for _, path := range paths {
			out = append(out, v1.KeyToPath{Key: "k", Path: path})
		}
		return out
	}
	secret := func(paths ...string) v1.VolumeProjection {
		return v1.VolumeProjection{Secret: &v1.SecretProjection{Items: items(paths...)}}
	}
	configMap := func(paths ...string) v1.VolumeProjection {
		return v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{Items: items(paths...)}}
	}
	fromPod := func(paths ...string) v1.VolumeProjection {
		s := &v1.DownwardAPIProjection{}
		for _, path := range paths {
			s.Items = append(s.Items, v1.DownwardAPIVolumeFile{Path: path})
		}
		return v1.VolumeProjection{DownwardAPI: s}
	}
	bundle := func(path string) v1.VolumeProjection {
		return v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: path}}
	}
	certificate := func(all, key, chain string) v1.VolumeProjection {
		return v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{CredentialBundlePath: all, KeyPath: key, CertificateChainPath: chain}}
	}
	token := v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "a"}}
	for name, test := range map[string]struct {
		sources []v1.VolumeProjection
		want    []Clash
	}{
		"none":                 {nil, nil},
		"different":            {[]v1.VolumeProjection{secret("a", "b"), configMap("c"), fromPod("d"), bundle("e"), certificate("f", "g", "h")}, nil},
		"within a source":      {[]v1.VolumeProjection{secret("a", "a")}, []Clash{{"sources[0].secret.items[1].path", "sources[0].secret.items[0].path", "a"}}},
		"the first one counts": {[]v1.VolumeProjection{bundle("a"), configMap("b", "a"), fromPod("a")}, []Clash{{"sources[1].configMap.items[1].path", "sources[0].clusterTrustBundle.path", "a"}, {"sources[2].downwardAPI.items[0].path", "sources[0].clusterTrustBundle.path", "a"}}},
		"bundle":               {[]v1.VolumeProjection{fromPod("b", "a"), bundle("a")}, []Clash{{"sources[1].clusterTrustBundle.path", "sources[0].downwardAPI.items[1].path", "a"}}},
		"certificate": {[]v1.VolumeProjection{certificate("a", "a", "a")}, []Clash{
			{"sources[0].podCertificate.keyPath", "sources[0].podCertificate.credentialBundlePath", "a"},
			{"sources[0].podCertificate.certificateChainPath", "sources[0].podCertificate.credentialBundlePath", "a"},
		}},
		"certificate without a bundle": {[]v1.VolumeProjection{certificate("", "a", "b"), certificate("", "c", "d")}, nil},
		"tokens":                       {[]v1.VolumeProjection{token, token, secret("a")}, nil},
		"another spelling":             {[]v1.VolumeProjection{secret("a", "./a")}, nil},
		"nothing":                      {[]v1.VolumeProjection{secret("", "")}, nil},
	} {
		require.Equal(t, test.want, Clashes(test.sources), name)
	}
}
