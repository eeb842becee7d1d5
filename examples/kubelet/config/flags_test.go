package config

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

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
version vmodule volume-plugin-dir volume-stats-agg-period windows-priorityclass windows-service
`

// Every upstream flag is either supported or refused with a reason.
func TestFlagsOfUpstream(t *testing.T) {
	known := map[string]option{"version": {usage: "x", group: groupFiles}}
	l := &commandLine{fields: map[string]any{}}
	for _, o := range l.options() {
		require.NotContains(t, known, o.name)
		known[o.name] = o
	}
	for _, name := range strings.Fields(upstream) {
		o, ok := known[name]
		require.True(t, ok, name)
		require.True(t, o.usage != "" || o.refused != "", name)
		require.GreaterOrEqual(t, rank(o.group), 0, name)
		delete(known, name)
	}
	require.Len(t, known, 2, "flags of this kubelet's own: --objects-dir, --adaptive-relist: %v", known)
}

// Each twin's field exists, and has a type that a flag can set.
func TestTwinsNameRealFields(t *testing.T) {
	for _, twin := range twins {
		require.NotNil(t, fieldType(twin.field), twin.name)
		require.True(t, fieldExists(reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](), strings.Split(twin.field, ".")), twin.name)
	}
}

func TestHelp(t *testing.T) {
	var out strings.Builder
	_, err := FromArgs([]string{"--help"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	last := -1
	for _, want := range []string{groupFiles + ":\n  --config\n", groupNode + ":\n", groupPods + ":\n", "--pod-manifest-path\n        folder, or file, with the manifests of static pods [staticPodPath]\n", groupRuntime + ":\n", groupServer + ":\n", groupLimits + ":\n", groupProcess + ":\n", groupRefused + ":\n", "  --vmodule: verbosity is one number"} {
		at := strings.Index(out.String(), want)
		require.Greater(t, at, last, want)
		last = at
	}
	out.Reset()
	_, err = FromArgs([]string{"--version"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Regexp(t, `^Kubernetes v1\.\d+\.\d+`, out.String())
}

// /flagz shows effective values without secrets.
func TestValues(t *testing.T) {
	c, err := withFile(t, "port: 7\nstaticPodURL: http://u:secret@h/", "--kubeconfig=/k", "--node-ip=10.0.0.1,fd00::1", "--node-labels=b=2,a=1", "--cloud-provider=external", "--register-with-taints=x=y:NoExecute", "--maximum-dead-containers=3",
		"--manifest-url-header=a:secret")
	require.NoError(t, err)
	values := c.Values()
	for name, want := range map[string]string{
		"port": "7", "kubeconfig": "/k", "node-ip": "10.0.0.1,fd00::1", "node-labels": "a=1,b=2", "cloud-provider": "external", "register-with-taints": "x=y:NoExecute", "maximum-dead-containers": "3",
		"manifest-url-header": "A:<masked>", "manifest-url": "http://u:xxxxx@h/", "anonymous-auth": "false", "sync-frequency": "1m0s", "lock-file": "", "exit-on-lock-contention": "false", "v": "0", "authorization-mode": "Webhook", "kube-api-qps": "50",
	} {
		require.Equal(t, want, values[name], name)
	}
	require.NotEmpty(t, values["config"])
}
