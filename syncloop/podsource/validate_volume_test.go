package podsource

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A volume whose source can never be found, or whose files would lie outside of it, is
// refused with the field that says so.
func TestDecodeRefusesVolumes(t *testing.T) {
	d := testDecoder()
	d.Volumes = []string{"configMap", "downwardAPI", "emptyDir", "image", "nfs", "projected", "secret"}
	d.Objects = []string{"ConfigMap", "Secret", "ServiceAccount", "ClusterTrustBundle"}
	decode := func(source string) error {
		_, err := d.Decode([]byte(web+indent("volumes:\n- {name: v, "+source+"}", 2)), "file:/m")
		return err
	}
	for _, good := range []string{
		"configMap: {name: c.d, defaultMode: 0777, items: [{key: k, path: a/..b, mode: 0}]}", "secret: {secretName: s}",
		"emptyDir: {medium: HugePages-2Mi}", "emptyDir: {medium: Memory}", "nfs: {server: \"::1\", path: /}", "image: {reference: a}",
		"projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 600}}, {clusterTrustBundle: {name: \"a:b\", path: c}}, {clusterTrustBundle: {signerName: s, path: d}}]}",
		"downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}", "projected: {}",
		"configMap: {name: c, items: [{key: k, path: p}, {key: l, path: p}]}", "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: \"metadata.labels['a']\"}}]}",
		"projected: {sources: [{serviceAccountToken: {path: t}}, {secret: {name: s, items: [{key: k, path: t}]}}]}",
		"downwardAPI: {items: [{path: a, resourceFieldRef: {containerName: app, resource: limits.cpu}}]}",
	} {
		require.NoError(t, decode(good), good)
	}
	for source, want := range map[string]string{
		"configMap: {}":                            "configMap.name: Required",
		"configMap: {name: A_b}":                   "configMap.name: Invalid value: \"A_b\"",
		"configMap: {name: c, defaultMode: 01000}": "configMap.defaultMode: Invalid",
		"configMap: {name: c, defaultMode: -1}":    "configMap.defaultMode: Invalid",
		"configMap: {name: c, items: [{path: p}]}": "configMap.items[0].key: Invalid",
		"configMap: {name: c, items: [{key: k}]}":  "configMap.items[0].path: Required",
		"secret: {}": "secret.secretName: Required",
		"secret: {secretName: s, items: [{key: k, path: /p}]}":                                       "secret.items[0].path: Invalid",
		"secret: {secretName: s, items: [{key: k, path: a/../p}]}":                                   "secret.items[0].path: Invalid",
		"secret: {secretName: s, items: [{key: k, path: ..p}]}":                                      "secret.items[0].path: Invalid",
		"secret: {secretName: s, items: [{key: k, path: p, mode: -1}]}":                              "secret.items[0].mode: Invalid",
		"emptyDir: {medium: Disk}":                                                                   "emptyDir.medium: Unsupported value",
		"nfs: {path: /x}":                                                                            "nfs.server: Required",
		"nfs: {server: s}":                                                                           "nfs.path: Required",
		"nfs: {server: s, path: x}":                                                                  "nfs.path: Invalid",
		"image: {}":                                                                                  "image.reference: Required",
		"image: {reference: a, pullPolicy: Sometimes}":                                               "image.pullPolicy: Unsupported value",
		"downwardAPI: {items: [{path: a}]}":                                                          "downwardAPI.items[0].fieldRef: Required",
		"downwardAPI: {items: [{fieldRef: {fieldPath: metadata.name}}]}":                             "downwardAPI.items[0].path: Required",
		"downwardAPI: {items: [{path: a, fieldRef: {fieldPath: spec.nodeName}}]}":                    "downwardAPI.items[0].fieldRef.fieldPath: Invalid value: \"spec.nodeName\": must be a field of the metadata",
		"downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.x}}]}":                       "downwardAPI.items[0].fieldRef.fieldPath: Invalid value: \"metadata.x\": unsupported",
		"downwardAPI: {items: [{path: a, resourceFieldRef: {resource: limits.cpu}}]}":                "downwardAPI.items[0].resourceFieldRef: Invalid value: \"limits.cpu\": container \"\" not found",
		"projected: {sources: [{secret: {name: a, items: [{key: k, path: p}, {key: l, path: p}]}}]}": "projected.sources[0].secret.items[1].path: Invalid value: \"p\": must not be that of spec.volumes[0].projected.sources[0].secret.items[0].path, too",
		"projected: {sources: [{}]}":                                                                 "projected.sources[0]: Required",
		"projected: {sources: [{secret: {name: a}, configMap: {name: b}}]}":                          "projected.sources[0].configMap: Forbidden",
		"projected: {sources: [{configMap: {}}]}":                                                    "projected.sources[0].configMap.name: Required",
		"projected: {sources: [{secret: {items: [{key: k, path: p}]}}]}":                             "projected.sources[0].secret.name: Required",
		"projected: {sources: [{downwardAPI: {items: [{path: ../x}]}}]}":                             "projected.sources[0].downwardAPI.items[0].path: Invalid",
		"projected: {sources: [{serviceAccountToken: {}}]}":                                          "projected.sources[0].serviceAccountToken.path: Required",
		"projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 599}}]}":           "projected.sources[0].serviceAccountToken.expirationSeconds: Invalid",
		"projected: {sources: [{clusterTrustBundle: {path: t}}]}":                                    "projected.sources[0].clusterTrustBundle.name: Required",
		"projected: {sources: [{clusterTrustBundle: {path: t, name: r, signerName: s}}]}":            "projected.sources[0].clusterTrustBundle.signerName: Forbidden",
	} {
		require.ErrorContains(t, decode(source), "spec.volumes[0]."+want, source)
	}
}
