package podsource

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A volume with an invalid source, or with files outside of it, is refused with its field.
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
		"projected: {sources: [{secret: {name: a, items: [{key: k, path: p}, {key: l, path: p}]}}]}": "projected.sources[0].secret.items[1].path: Invalid value: \"p\": must differ from spec.volumes[0].projected.sources[0].secret.items[0].path",
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

func TestDefaultPodResources(t *testing.T) {
	const containers = `
  initContainers:
  - {name: before, image: a, resources: {requests: {cpu: 30m, memory: 70Mi}}}
  - {name: sidecar, image: a, restartPolicy: Always, resources: {requests: {cpu: 5m, memory: 10Mi}}}
  - {name: after, image: a, resources: {requests: {cpu: 8m, memory: 70Mi}}}
  containers:
  - {name: app, image: a, resources: {limits: {cpu: 10m}, requests: {memory: 20Mi, ephemeral-storage: 1Gi}}}
  - {name: other, image: a, resources: {requests: {memory: 5Mi}}}
`
	for given, want := range map[string]string{
		// The CPU of the first init container, the memory of the second with the sidecar's.
		"limits: {cpu: 1, memory: 1Gi}":                                                   "cpu 30m, memory 80Mi",
		"requests: {cpu: 2}, limits: {memory: 1Gi, hugepages-2Mi: 2Mi}":                   "cpu 2, hugepages-2Mi 2Mi, memory 80Mi",
		"requests: {cpu: 40m, memory: 1Gi, hugepages-2Mi: 4Mi}, limits: {cpu: 0.0405001}": "cpu 40m, hugepages-2Mi 4Mi, memory 1Gi",
		"": "",
	} {
		manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  resources: {" + given + "}" + containers
		pod, err := parse([]byte(manifest))
		require.NoError(t, err)
		setDefaults(pod)
		var got []string
		for _, name := range []string{"cpu", "ephemeral-storage", "hugepages-2Mi", "memory"} {
			for at, quantity := range pod.Spec.Resources.Requests {
				if string(at) == name {
					got = append(got, name+" "+quantity.String())
				}
			}
		}
		require.Equal(t, want, strings.Join(got, ", "), given)
	}
	pod, err := parse([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:" + containers))
	require.NoError(t, err)
	setDefaults(pod)
	require.Nil(t, pod.Spec.Resources, "no further defaults")
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Many aliases of a long text are few values, so the decoder alone would accept gigabytes.
func TestDecodeRefusesExpandingAliases(t *testing.T) {
	long, many := strings.Repeat("y", 1000), strings.Repeat("*s,", 20_000)
	nested := "a: &a [" + strings.Repeat("y", 1000) + "]\n"
	for from := 'a'; from < 'f'; from++ {
		nested += fmt.Sprintf("%c: &%c [%s]\n", from+1, from+1, strings.Repeat(fmt.Sprintf("*%c,", from), 9))
	}
	for name, manifest := range map[string]string{
		"text":           "s: &s " + long + "\nl: [" + many + "]\n",
		"key":            "s: &s " + long + "\nl: [" + strings.Repeat("{*s : 1},", 20_000) + "]\n",
		"binary":         "s: &s !!binary " + long + "\nl: [" + many + "]\n",
		"JSON":           `{"s":&s "` + long + `","l":[` + many + `]}`,
		"nested aliases": nested,
		"merged":         "s: &s {k: " + long + "}\nl: [" + strings.Repeat("{<<: *s},", 20_000) + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			d := testDecoder()
			var err, listErr error
			took := allocated(func() {
				_, err = d.Decode([]byte(manifest), "file:/m/x.yaml")
				_, listErr = d.DecodeAll([]byte(manifest), "url:http://server/pods")
			})
			require.EqualError(t, err, "the manifest has more than 10485760 bytes with expanded aliases (*)")
			require.Equal(t, err, listErr)
			require.Less(t, took, uint64(200<<20))
		})
	}
}

// Each value needs hundreds of bytes during decoding.
func TestDecodeRefusesTooManyValues(t *testing.T) {
	for name, manifest := range map[string]string{
		"lists":   "x: [" + strings.Repeat("[],", 1<<18) + "]",
		"numbers": "x: [" + strings.Repeat("0,", 1<<18) + "]",
		"lines":   "x:\n" + strings.Repeat("- \n", 1<<18),
		"keys":    "x: {" + strings.Repeat("? a,", 1<<18) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocated(func() { _, err = testDecoder().Decode([]byte(manifest), "file:/m/x.yaml") })
			require.EqualError(t, err, "the manifest has more than 262144 values")
			require.Less(t, took, uint64(8<<20))
		})
	}
}

// Common uses of aliases are accepted, and text that resembles aliases.
func TestDecodeAcceptsAliases(t *testing.T) {
	for name, spec := range map[string]string{
		"aliases":       "    env: &env [{name: A, value: b}]\n  - name: two\n    image: nginx\n    env: *env\n",
		"shell command": "    command: [sh, -c, 'ls *foo >/dev/null 2>&1 && echo &x']\n",
		"many":          "    env:\n" + strings.Repeat("    - &a {name: A, value: b}\n    - *a\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := testDecoder().Decode([]byte(web+spec), "file:/m/x.yaml")
			require.NoError(t, err)
		})
	}
}

// An anchor that contains itself is refused.
func TestDecodeRefusesEndlessAliases(t *testing.T) {
	_, err := testDecoder().Decode([]byte("kind: Pod\napiVersion: v1\nx: &x [*x]\n"), "file:/m/x.yaml")
	require.ErrorContains(t, err, "contains itself")
}
