package config

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// upstream lists the flags of the upstream kubelet v1.36 on Linux.
const upstream = `
address allowed-unsafe-sysctls anonymous-auth application-metrics-count-limit authentication-token-webhook
authentication-token-webhook-cache-ttl authorization-mode authorization-webhook-cache-authorized-ttl
authorization-webhook-cache-unauthorized-ttl boot-id-file bootstrap-kubeconfig cert-dir cgroup-driver cgroup-root cgroups-per-qos
client-ca-file cloud-provider cluster-dns cluster-domain config config-dir container-hints container-log-max-files container-log-max-size
container-runtime-endpoint containerd containerd-namespace contention-profiling cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy
cpu-manager-policy-options cpu-manager-reconcile-period enable-controller-attach-detach enable-debugging-handlers enable-load-reader
enable-server enforce-node-allocatable event-burst event-qps event-storage-age-limit event-storage-event-limit eviction-hard
eviction-max-pod-grace-period eviction-minimum-reclaim eviction-pressure-transition-period eviction-soft eviction-soft-grace-period
exit-on-lock-contention experimental-allocatable-ignore-eviction experimental-mounter-path fail-cgroupv1 fail-swap-on feature-gates
file-check-frequency global-housekeeping-interval hairpin-mode healthz-bind-address healthz-port hostname-override housekeeping-interval
http-check-frequency image-credential-provider-bin-dir image-credential-provider-config image-gc-high-threshold image-gc-low-threshold
image-service-endpoint kernel-memcg-notification kube-api-burst kube-api-content-type kube-api-qps kube-reserved kube-reserved-cgroup
kubeconfig kubelet-cgroups local-storage-capacity-isolation lock-file log-cadvisor-usage log-flush-frequency log-json-info-buffer-size
log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format machine-id-file make-iptables-util-chains manifest-url
manifest-url-header max-open-files max-pods maximum-dead-containers maximum-dead-containers-per-container memory-manager-policy
minimum-container-ttl-duration minimum-image-ttl-duration node-ip node-labels node-status-max-images node-status-update-frequency
oom-score-adj pod-cidr pod-manifest-path pod-max-pids pods-per-core port protect-kernel-defaults provider-id qos-reserved read-only-port
register-node register-with-taints registry-burst registry-qps reserved-cpus reserved-memory resolv-conf root-dir rotate-certificates
rotate-server-certificates runonce runtime-cgroups runtime-request-timeout seccomp-default serialize-image-pulls
storage-driver-buffer-duration storage-driver-db storage-driver-host storage-driver-password storage-driver-secure storage-driver-table
storage-driver-user streaming-connection-idle-timeout sync-frequency system-cgroups system-reserved system-reserved-cgroup tls-cert-file
tls-cipher-suites tls-min-version tls-private-key-file topology-manager-policy topology-manager-policy-options topology-manager-scope v
version vmodule volume-plugin-dir volume-stats-agg-period
`

// Each field of KubeletConfiguration and each flag of upstream has one row, and no row names an
// unknown field.
func TestTableIsComplete(t *testing.T) {
	fields, flags := map[string]bool{}, map[string]bool{}
	for _, s := range settings() {
		if s.field != "" {
			require.False(t, fields[s.field], s.field)
			require.NotNil(t, typeAt(s.field), s.field)
			fields[s.field] = true
		}
		if s.flag != "" {
			require.False(t, flags[s.flag], s.flag)
			flags[s.flag] = true
		}
		require.NotEmpty(t, s.text, s.name())
		if s.flag != "" && s.field == "" && s.class == implemented {
			require.True(t, s.to != nil || s.parse != nil && s.show != nil, s.flag)
		}
	}
	for _, path := range leaves(configurationType, "") {
		require.True(t, fields[path], "no row for the field %s", path)
		delete(fields, path)
	}
	require.Empty(t, fields, "rows that are not fields with a value")
	for _, name := range strings.Fields(upstream) {
		require.True(t, flags[name], "no row for the flag --%s", name)
		delete(flags, name)
	}
	for i := range removedSettings {
		require.Contains(t, removedSettings[i].text, "removed in Kubernetes v1.")
		delete(flags, removedSettings[i].flag)
	}
	require.Equal(t, map[string]bool{"objects-dir": true, "adaptive-relist": true}, flags, "flags that upstream lacks")
}

// leaves returns the paths of the fields with a value, without structures.
func leaves(t reflect.Type, prefix string) (out []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch below := pointed(f.Type); {
		case name == "":
		case isTree(below):
			out = append(out, leaves(below, prefix+name+".")...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}

func TestNearest(t *testing.T) {
	names := []string{"maxPods", "authentication.x509.clientCAFile", "port"}
	for name, want := range map[string]string{"maxPodz": "maxPods", "MaxPods": "maxPods", "clientCAFil": "authentication.x509.clientCAFile", "futureField": "", "prt": "port", "x": ""} {
		require.Equal(t, want, nearest(name, names), name)
	}
}

var update = flag.Bool("update", false, "write docs/flags-and-fields.md")

// docs/flags-and-fields.md follows from the table. -update writes it.
func TestPage(t *testing.T) {
	const file = "../../../docs/flags-and-fields.md"
	want := page()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "go test ./examples/kubelet/config -run TestPage -update")
}

func page() string {
	var b strings.Builder
	b.WriteString(`# Flags and configuration fields

This page is generated from the table in ` + "`examples/kubelet/config`" + `: ` + "`go test ./examples/kubelet/config -run TestPage -update`" + ` writes it.
[Running the kubelet](kubelet.md) describes the parts behind these settings.

The kubelet takes the flags and the fields of ` + "`KubeletConfiguration`" + ` (` + "`kubelet.config.k8s.io/v1beta1`" + `) of the upstream kubelet v1.36. There are three classes:

- Implemented: the setting has its upstream effect. These rows have no entry in the column "class".
- No effect: another value than the default changes nothing, here or in upstream on a CRI runtime. The log has one warning, and the kubelet starts.
- Refused: another value than the default needs isolation, safety or accounting that this kubelet lacks. The kubelet does not start.

A flag overrides its field in the file. Unknown fields of the file are ignored with a warning that contains file, line and the nearest known field.
A value of the wrong type, a file of more than 10 MiB and a pipe or device in ` + "`--config-dir`" + ` end the start. Files in ` + "`--config-dir`" + ` whose names do not end in ` + "`.conf`" + ` are ignored with a warning.
`)
	standard := Default()
	for _, g := range table() {
		fmt.Fprintf(&b, "\n## %s\n\n", g.title)
		if g.title == removedTitle {
			b.WriteString("Upstream has removed these flags. They end the start.\n\n| flag | reason |\n| --- | --- |\n")
			for _, s := range g.settings {
				fmt.Fprintf(&b, "| `--%s` | %s |\n", s.flag, s.text)
			}
			continue
		}
		b.WriteString("| field | flag | class | default | description or reason |\n| --- | --- | --- | --- | --- |\n")
		for i := range g.settings {
			s := &g.settings[i]
			text := s.text
			text += s.values()
			class := map[class]string{noEffect: "no effect", refused: "refused"}[s.class]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(s.field), code(prefixed("--", s.flag)), class, s.defaultText(&standard), text)
		}
	}
	b.WriteString(`
## Feature gates

The column "other value" describes the treatment of a value that is not the default.
An unknown gate ends the start. A gate that changes no behaviour under the given configuration is accepted without a warning.

| gate | default | stage | other value |
| --- | --- | --- | --- |
`)
	all := gates()
	for _, g := range (&Config{}).Gates() {
		class := all[g.Name].class
		treatment := "warning"
		if g.Enabled == (class == offGate) {
			treatment = "accepted"
		}
		text := map[string]string{
			anyGate: "accepted", switchGate: "implemented", onGate: treatment + ": always on", offGate: treatment + ": not supported",
			tiedGate: "refused with a setting that needs it", refusedGate: "refused: " + gateReasons[g.Name], lockedGate: "refused: locked",
		}[class]
		fmt.Fprintf(&b, "| `%s` | %t | %s | %s |\n", g.Name, g.Enabled, strings.ToLower(g.Stage), text)
	}
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Each line of the list of gates has four words. The last two are from fixed sets.
func TestGateList(t *testing.T) {
	all := gates()
	require.Len(t, all, strings.Count(gateList, "\n"))
	require.Greater(t, len(all), 200)
	for name, g := range all {
		require.Contains(t, []string{anyGate, switchGate, onGate, offGate, tiedGate, refusedGate, lockedGate}, g.class, name)
		require.Contains(t, []string{"ALPHA", "BETA", "GA", "DEPRECATED"}, g.stage, name)
		require.Equal(t, g.class == refusedGate, gateReasons[name] != "", name)
	}
	require.True(t, slices.IsSorted(strings.Split(strings.TrimSpace(gateList), "\n")))
}
