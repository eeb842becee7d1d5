package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Settings without effect are accepted with one warning each, which contains the name and no value.
// Defaults cause none.
func TestSettingsWithoutEffect(t *testing.T) {
	for text, want := range map[string]string{
		"hairpinMode: hairpin-veth":                              "hairpinMode (--hairpin-mode): no effect: the network",
		"podCIDR: 10.0.0.0/24":                                   "podCIDR (--pod-cidr): no effect",
		"kubeletCgroups: /kubelet":                               "kubeletCgroups (--kubelet-cgroups): no effect: the kubelet is not moved yet",
		"systemCgroups: /system\ncgroupRoot: /":                  "systemCgroups (--system-cgroups): no effect: processes are not moved yet",
		"volumePluginDir: /home/kubernetes/flexvolume":           "volumePluginDir",
		"configMapAndSecretChangeDetectionStrategy: Cache":       "configMapAndSecretChangeDetectionStrategy: no effect",
		"configMapAndSecretChangeDetectionStrategy: Get":         "configMapAndSecretChangeDetectionStrategy: no effect",
		"configMapAndSecretChangeDetectionStrategy: Watch":       "",
		"memoryReservationPolicy: None":                          "",
		"iptablesMasqueradeBit: 14\niptablesDropBit: 15":         "",
		"iptablesMasqueradeBit: 7":                               "iptablesMasqueradeBit: no effect",
		"iptablesDropBit: 7":                                     "iptablesDropBit: no effect",
		"topologyManagerScope: pod":                              "topologyManagerScope (--topology-manager-scope): no effect",
		"cpuManagerReconcilePeriod: 1s":                          "cpuManagerReconcilePeriod (--cpu-manager-reconcile-period): no effect",
		"evictionMaxPodGracePeriod: -1":                          "",
		"enableContentionProfiling: true":                        "",
		"podPidsLimit: -2":                                       "",
		"qosReserved: {memory: 50%}":                             "qosReserved (--qos-reserved): no effect",
		"memoryThrottlingFactor: 0.5":                            "memoryThrottlingFactor: no effect: it needs the feature gate MemoryQoS",
		"memoryThrottlingFactor: 0.9":                            "",
		"logging: {options: {json: {splitStream: true}}}":        "logging.options.json.splitStream (--log-json-split-stream): no effect",
		"logging: {vmodule: [{filePattern: a, verbosity: 3}]}":   "logging.vmodule: no effect",
		"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]": "reservedMemory: no effect",
		"cpuManagerPolicyOptions: {}\nqosReserved: {}":           "",
	} {
		c, err := withFile(t, text)
		require.NoError(t, err, text)
		requireWarning(t, c, want, text)
	}
	for arg, want := range map[string]string{
		"--containerd=/run/k3s/containerd/containerd.sock":   "--containerd: no effect: this kubelet has no cAdvisor",
		"--housekeeping-interval=10s":                        "--housekeeping-interval: no effect",
		"--housekeeping_interval=10s":                        "--housekeeping-interval: no effect",
		"--storage-driver-password=secret":                   "--storage-driver-password: no effect",
		"--storage-driver-secure":                            "--storage-driver-secure: no effect",
		"--vmodule=kubelet*=4":                               "--vmodule: no effect",
		"--reserved-memory=0:memory=1Gi":                     "--reserved-memory: no effect",
		"--experimental-mounter-path=/home/mounter":          "--experimental-mounter-path: no effect",
		"--hairpin-mode=none":                                "hairpinMode (--hairpin-mode): no effect",
		"--contention-profiling":                             "",
		"--runtime-cgroups=/system.slice/containerd.service": "",
	} {
		c, err := FromArgs([]string{"--hostname-override=n", arg}, io.Discard)
		require.NoError(t, err, arg)
		requireWarning(t, c, want, arg)
	}
}

// A repeated flag causes one warning.
func TestRepeatedFlag(t *testing.T) {
	c, err := FromArgs([]string{"--hostname-override=n", "--containerd=/a", "--containerd=/b"}, io.Discard)
	require.NoError(t, err)
	requireWarning(t, c, "--containerd: no effect", "")
}

func requireWarning(t *testing.T, c *Config, want, about string) {
	t.Helper()
	if want == "" {
		require.Empty(t, c.Warnings, about)
		return
	}
	require.Len(t, c.Warnings, 1, about)
	require.Contains(t, c.Warnings[0], want, about)
	require.NotContains(t, c.Warnings[0], "secret")
}

// A4: unknown and repeated fields are ignored with a warning that contains file, line and the
// nearest field, in the file and in files of --config-dir. Names are case-sensitive.
func TestUnknownFields(t *testing.T) {
	dir := write(t, map[string]string{
		"kubelet.yaml": head + "futureField: 1\nmaxPodz: 7\nreadOnlyPort: 1\nreadOnlyPort: 2\nMaxPods: 8\nuserNamespaces:\n  idsPerPods: 1\nclientCAFile: /ca\nregisterWithTaints:\n- key: a\n  effect: NoSchedule\n  colour: red\n",
		"d/a.conf":     `{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",` + "\n" + `"futureField": {"a": [1]}}`,
	})
	c, err := FromArgs([]string{"--hostname-override=n", "--enable-server=false", "--config=" + dir + "/kubelet.yaml", "--config-dir=" + dir + "/d"}, io.Discard)
	require.NoError(t, err)
	const ignored = " unknown field, ignored"
	require.Equal(t, []string{
		dir + "/kubelet.yaml:3: futureField:" + ignored,
		dir + "/kubelet.yaml:4: maxPodz:" + ignored + "; did you mean maxPods?",
		dir + "/kubelet.yaml:6: readOnlyPort: set twice; the last value counts",
		dir + "/kubelet.yaml:7: MaxPods:" + ignored + "; did you mean maxPods?",
		dir + "/kubelet.yaml:9: userNamespaces.idsPerPods:" + ignored + "; did you mean userNamespaces.idsPerPod?",
		dir + "/kubelet.yaml:10: clientCAFile:" + ignored + "; did you mean authentication.x509.clientCAFile?",
		dir + "/kubelet.yaml:14: registerWithTaints[0].colour:" + ignored,
		dir + "/d/a.conf:2: futureField:" + ignored,
	}, c.Warnings)
	require.EqualValues(t, 110, c.Kubelet.MaxPods)
	require.EqualValues(t, 2, c.Kubelet.ReadOnlyPort)
}

// Unknown fields of merge keys and aliases are found too. They are removed, as the decoder ignores
// the case of names.
func TestUnknownFieldsOfMergeKeys(t *testing.T) {
	for text, want := range map[string]string{
		"<<: {maxpods: 7}":                  ":3: maxpods: unknown field, ignored; did you mean maxPods?",
		"<<: [{<<: {maxpods: 7}}]":          ":3: maxpods: unknown field, ignored; did you mean maxPods?",
		"clusterDomain: &a maxpods\n*a : 7": ":4: maxpods: unknown field, ignored; did you mean maxPods?",
		"!!binary bWF4cG9kcw== : 7":         ": unknown field, ignored",
		"futureField: &t {key: a, effect: NoSchedule, hue: 1}\nregisterWithTaints: [*t]": ":3: registerWithTaints[0].hue: unknown field, ignored",
		"maxPods: 110\n---\nmaxPods: 7": ":5: a second YAML document, ignored",
	} {
		c, err := withFile(t, text, "--kubeconfig=/k")
		require.NoError(t, err, text)
		require.EqualValues(t, 110, c.Kubelet.MaxPods, text)
		require.Contains(t, strings.Join(c.Warnings, "\n"), want, text)
	}
	for _, text := range []string{"<<: {maxPods: 7}", "clusterDomain: &a maxPods\n*a : 7", "<<: {maxPods: text}\nmaxPods: 7", "maxPods: 7\n---\n"} {
		c, err := withFile(t, text, "--kubeconfig=/k")
		require.NoError(t, err, text)
		require.EqualValues(t, 7, c.Kubelet.MaxPods, text)
		require.Empty(t, c.Warnings, text)
	}
}

// A file with countless mistakes costs one screen of warnings.
func TestWarningsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "field%d: 1\n", i)
	}
	c, err := withFile(t, text.String(), "--kubeconfig=/k")
	require.NoError(t, err)
	require.Len(t, c.Warnings, maxWarnings+1)
	require.Contains(t, c.Warnings[maxWarnings], "kubelet.yaml: 19950 more warnings")
}

// Weak cipher suites, and suites that TLS 1.3 ignores, cause a warning.
func TestWeakCiphers(t *testing.T) {
	c, err := FromArgs([]string{"--hostname-override=n", "--kubeconfig=/k", "--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{"tlsCipherSuites: insecure: TLS_RSA_WITH_AES_128_GCM_SHA256"}, c.Warnings)
}

// The stock configurations of distributions start. Each file of testdata/stock has the flags in
// comments that begin with "flag:", and the settings without effect in comments that begin with
// "warning:".
func TestStockConfigurations(t *testing.T) {
	files, err := filepath.Glob("testdata/stock/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 9)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			args, warnings := []string{"--hostname-override=n", "--config=" + file}, []string(nil)
			for line := range strings.Lines(string(text)) {
				if arg, ok := strings.CutPrefix(line, "# flag: "); ok {
					args = append(args, strings.TrimSpace(arg))
				}
				if name, ok := strings.CutPrefix(line, "# warning: "); ok {
					warnings = append(warnings, strings.TrimSpace(name))
				}
			}
			c, err := FromArgs(args, io.Discard)
			require.NoError(t, err)
			require.Len(t, c.Warnings, len(warnings), c.Warnings)
			for i, name := range warnings {
				require.True(t, strings.HasPrefix(c.Warnings[i], name), "%q does not begin with %q", c.Warnings[i], name)
			}
		})
	}
}
