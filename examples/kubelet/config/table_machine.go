package config

import (
	"slices"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/kubelet/logging"
)

const noOptions = "the policy none has no options"

var resourceSettings = []setting{
	{field: "maxPods", flag: "max-pods", text: "limit of pods on the node", limits: atLeast(0)},
	{field: "podsPerCore", flag: "pods-per-core", text: "limit of pods per CPU; 0: no limit", limits: atLeast(0)},
	{field: "podPidsLimit", flag: "pod-max-pids", text: "limit of processes of a pod; -1: no limit"},
	{field: "cgroupsPerQOS", flag: "cgroups-per-qos", text: "create cgroups of pods and QoS classes"},
	{field: "cgroupDriver", flag: "cgroup-driver", text: "driver of cgroups, unless the runtime reports one", allowed: []string{cri.CgroupDriverCgroupfs, cri.CgroupDriverSystemd}},
	{field: "cgroupRoot", flag: "cgroup-root", text: "cgroup above the cgroups of pods", preset: "/"},
	{field: "failCgroupV1", flag: "fail-cgroupv1", text: "do not start on a host with cgroup v1"},
	{field: "failSwapOn", flag: "fail-swap-on", text: "do not start on a host with swap"},
	{field: "protectKernelDefaults", flag: "protect-kernel-defaults", text: "do not start if a kernel parameter differs; if false, set it"},
	{field: "makeIPTablesUtilChains", flag: "make-iptables-util-chains", text: "create the iptables chains that other programs expect"},
	{field: "iptablesMasqueradeBit", class: noEffect, text: "kube-proxy marks packets"},
	{field: "iptablesDropBit", class: noEffect, text: "kube-proxy marks packets"},

	{field: "systemReserved", flag: "system-reserved", text: "resources of the system, as resource=quantity"},
	{field: "kubeReserved", flag: "kube-reserved", text: "resources of kubelet and runtime, as resource=quantity"},
	{field: "reservedSystemCPUs", flag: "reserved-cpus", text: "CPUs that pods cannot use"},
	{field: "systemReservedCgroup", flag: "system-reserved-cgroup", text: "cgroup of the system"},
	{field: "kubeReservedCgroup", flag: "kube-reserved-cgroup", text: "cgroup of kubelet and runtime"},
	{field: "enforceNodeAllocatable", flag: "enforce-node-allocatable", text: "cgroups with enforced limits: pods, system-reserved, kube-reserved and their -compressible variants, or none"},
	{field: "qosReserved", flag: "qos-reserved", class: noEffect, text: "it needs the feature gate QOSReserved"},
	{flag: "experimental-allocatable-ignore-eviction", class: refused, isSwitch: true, text: "allocatable resources exclude the thresholds of evictionHard"},

	{field: "evictionHard", flag: "eviction-hard", sign: "<", text: "thresholds that evict at once, as signal<quantity", preset: "upstream's"},
	{field: "evictionSoft", flag: "eviction-soft", sign: "<", text: "thresholds that evict after evictionSoftGracePeriod, as signal<quantity"},
	{field: "evictionSoftGracePeriod", flag: "eviction-soft-grace-period", text: "delay of soft thresholds, as signal=duration"},
	{field: "evictionPressureTransitionPeriod", flag: "eviction-pressure-transition-period", text: "time that a pressure condition stays"},
	{field: "evictionMaxPodGracePeriod", flag: "eviction-max-pod-grace-period", text: "longest grace period of a soft eviction in seconds; negative: the pod's own"},
	{field: "evictionMinimumReclaim", flag: "eviction-minimum-reclaim", text: "amount that an eviction must free, as signal=quantity"},
	{field: "mergeDefaultEvictionSettings", text: "add the default thresholds to evictionHard"},
	{field: "kernelMemcgNotification", flag: "kernel-memcg-notification", text: "use the kernel's notifications of memory thresholds, on cgroup v1"},
	{field: "localStorageCapacityIsolation", flag: "local-storage-capacity-isolation", text: "limit local storage"},

	{field: "shutdownGracePeriod", text: "time for pods at a shutdown of the machine"},
	{field: "shutdownGracePeriodCriticalPods", text: "part of shutdownGracePeriod for critical pods"},
	{field: "shutdownGracePeriodByPodPriority", text: "time for pods at a shutdown, by priority"},

	{field: "cpuManagerPolicy", flag: "cpu-manager-policy", class: refused, text: "this kubelet assigns no exclusive CPUs", allowed: []string{"none", "static"}},
	{field: "cpuManagerPolicyOptions", flag: "cpu-manager-policy-options", class: refused, text: noOptions},
	{field: "cpuManagerReconcilePeriod", flag: "cpu-manager-reconcile-period", class: noEffect, text: "this kubelet assigns no exclusive CPUs"},
	{field: "memoryManagerPolicy", flag: "memory-manager-policy", class: refused, text: "this kubelet assigns no memory of NUMA nodes", allowed: []string{"None", "Static"}},
	{field: "reservedMemory", class: noEffect, text: "the memory manager policy None ignores it"},
	{flag: "reserved-memory", class: noEffect, text: "the memory manager policy None ignores it"},
	{field: "topologyManagerPolicy", flag: "topology-manager-policy", class: refused, text: "this kubelet aligns no resources to NUMA nodes", allowed: []string{"none", "best-effort", "restricted", "single-numa-node"}},
	{field: "topologyManagerScope", flag: "topology-manager-scope", class: noEffect, text: "the topology manager policy none ignores it", allowed: []string{"container", "pod"}},
	{field: "topologyManagerPolicyOptions", flag: "topology-manager-policy-options", class: noEffect, text: "the topology manager policy none ignores it"},
}

const oneStream = "the log is one stream on standard error without a buffer"

var processSettings = []setting{
	{field: "logging.verbosity", flag: "v", text: "verbosity of the log; 4 and more is debug output"},
	{field: "logging.format", flag: "logging-format", text: "format of the log: text is klog's", allowed: []string{logging.Text, logging.JSON, logging.Slog}},
	{field: "logging.flushFrequency", flag: "log-flush-frequency", text: "longest delay of a line; this kubelet delays none", limits: atLeast(1)},
	{field: "logging.vmodule", class: noEffect, text: "all files have the verbosity of --v"},
	{flag: "vmodule", class: noEffect, text: "all files have the verbosity of --v"},
	{field: "logging.options.text.splitStream", flag: "log-text-split-stream", class: noEffect, text: oneStream},
	{field: "logging.options.text.infoBufferSize", class: noEffect, text: oneStream},
	{flag: "log-text-info-buffer-size", class: noEffect, text: oneStream},
	{field: "logging.options.json.splitStream", flag: "log-json-split-stream", class: noEffect, text: oneStream},
	{field: "logging.options.json.infoBufferSize", class: noEffect, text: oneStream},
	{flag: "log-json-info-buffer-size", class: noEffect, text: oneStream},
	{field: "tracing.endpoint", text: "OpenTelemetry collector for spans", preset: "localhost:4317"},
	{field: "tracing.samplingRatePerMillion", text: "spans that are sampled, per million", limits: within(0, 1_000_000)},
	{field: "featureGates", flag: "feature-gates", text: "feature gates, as name=true,name=false; the flag overrides single gates of the file"},
	{field: "oomScoreAdj", flag: "oom-score-adj", text: "OOM score of the kubelet", limits: within(-1000, 1000)},
	{field: "maxOpenFiles", flag: "max-open-files", text: "limit of the kubelet's open files", limits: atLeast(0)},
	{field: "kubeletCgroups", flag: "kubelet-cgroups", class: noEffect, text: "the kubelet is not moved yet: it stays in the cgroup that its service manager selects"},
	{field: "systemCgroups", flag: "system-cgroups", class: noEffect, text: "processes are not moved yet; /stats/summary reports the cgroup"},
}

const noCadvisor = "this kubelet has no cAdvisor"

var cadvisorSettings = slices.Concat(
	same(noEffect, noCadvisor,
		"housekeeping-interval", "global-housekeeping-interval", "application-metrics-count-limit", "boot-id-file", "machine-id-file", "container-hints",
		"containerd", "containerd-namespace", "event-storage-age-limit", "event-storage-event-limit", "storage-driver-user", "storage-driver-password",
		"storage-driver-host", "storage-driver-db", "storage-driver-table", "storage-driver-buffer-duration"),
	switches(noEffect, noCadvisor, "enable-load-reader", "log-cadvisor-usage", "storage-driver-secure"),
)

const (
	networkRemoved = "removed in Kubernetes v1.24: the network belongs to the container runtime"
	logRemoved     = "removed in Kubernetes v1.26: the log goes to standard error"
)

// removedSettings are flags that upstream has removed and that old service files still contain.
var removedSettings = slices.Concat(
	same(removed, networkRemoved, "network-plugin", "network-plugin-mtu", "cni-bin-dir", "cni-cache-dir", "cni-conf-dir"),
	same(removed, "removed in Kubernetes v1.24, with dockershim", "docker-endpoint", "image-pull-progress-deadline"),
	same(removed, "removed in Kubernetes v1.24, with dynamic configuration", "dynamic-config-dir"),
	same(removed, logRemoved, "log-backtrace-at", "log-dir", "log-file", "log-file-max-size", "stderrthreshold"),
	switches(removed, logRemoved, "add-dir-header", "alsologtostderr", "logtostderr", "one-output", "skip-headers", "skip-log-headers"),
	same(removed, "removed in Kubernetes v1.27: every runtime uses CRI", "container-runtime"),
	same(removed, "removed in Kubernetes v1.27: without effect before", "master-service-namespace"),
	same(removed, "removed in Kubernetes v1.30: use --image-credential-provider-config", "azure-container-registry-config"),
	same(removed, "removed in Kubernetes v1.31: kube-proxy marks packets", "iptables-drop-bit", "iptables-masquerade-bit"),
	switches(removed, "removed in Kubernetes v1.31: volumes of ended pods are unmounted", "keep-terminated-pod-volumes"),
	same(removed, "removed in Kubernetes v1.34: use --cloud-provider=external", "cloud-config"),
	same(removed, "removed in Kubernetes v1.35: the container runtime selects the sandbox image", "pod-infra-container-image"),
)

// same returns rows of flags with the same class and reason.
func same(c class, reason string, flags ...string) (out []setting) {
	for _, name := range flags {
		out = append(out, setting{flag: name, class: c, text: reason})
	}
	return out
}

// switches is same for flags that need no value.
func switches(c class, reason string, flags ...string) []setting {
	out := same(c, reason, flags...)
	for i := range out {
		out[i].isSwitch = true
	}
	return out
}
