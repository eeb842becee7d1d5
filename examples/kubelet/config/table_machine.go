package config

const noOptions = "the policy none has no options"

var resourceSettings = []setting{
	{field: "maxPods", flag: "max-pods", text: "limit of pods on the node"},
	{field: "podsPerCore", flag: "pods-per-core", text: "limit of pods per CPU; 0: no limit"},
	{field: "podPidsLimit", flag: "pod-max-pids", text: "limit of processes of a pod; -1: no limit"},
	{field: "cgroupsPerQOS", flag: "cgroups-per-qos", text: "create cgroups of pods and QoS classes"},
	{field: "cgroupDriver", flag: "cgroup-driver", text: "cgroupfs or systemd; the driver that the runtime reports overrides it"},
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
	{field: "logging.format", flag: "logging-format", text: "format of the log: text or json"},
	{field: "logging.flushFrequency", flag: "log-flush-frequency", text: "longest delay of a line; this kubelet delays none"},
	{field: "logging.vmodule", class: noEffect, text: "all files have the verbosity of --v"},
	{flag: "vmodule", class: noEffect, text: "all files have the verbosity of --v"},
	{field: "logging.options.text.splitStream", flag: "log-text-split-stream", class: noEffect, text: oneStream},
	{field: "logging.options.text.infoBufferSize", class: noEffect, text: oneStream},
	{flag: "log-text-info-buffer-size", class: noEffect, text: oneStream},
	{field: "logging.options.json.splitStream", flag: "log-json-split-stream", class: noEffect, text: oneStream},
	{field: "logging.options.json.infoBufferSize", class: noEffect, text: oneStream},
	{flag: "log-json-info-buffer-size", class: noEffect, text: oneStream},
	{field: "tracing.endpoint", text: "OpenTelemetry collector for spans", preset: "localhost:4317"},
	{field: "tracing.samplingRatePerMillion", text: "spans that are sampled, per million"},
	{field: "featureGates", flag: "feature-gates", text: "feature gates, as name=true,name=false; the flag overrides single gates of the file"},
	{field: "oomScoreAdj", flag: "oom-score-adj", text: "OOM score of the kubelet, -1000 to 1000"},
	{field: "maxOpenFiles", flag: "max-open-files", text: "limit of the kubelet's open files"},
	{field: "kubeletCgroups", flag: "kubelet-cgroups", class: noEffect, text: "the kubelet is not moved yet: it stays in the cgroup that its service manager selects"},
	{field: "systemCgroups", flag: "system-cgroups", class: noEffect, text: "processes are not moved yet; /stats/summary reports the cgroup"},
}

const noCadvisor = "this kubelet has no cAdvisor"

var cadvisorSettings = []setting{
	{flag: "housekeeping-interval", class: noEffect, text: noCadvisor},
	{flag: "global-housekeeping-interval", class: noEffect, text: noCadvisor},
	{flag: "application-metrics-count-limit", class: noEffect, text: noCadvisor},
	{flag: "boot-id-file", class: noEffect, text: noCadvisor},
	{flag: "machine-id-file", class: noEffect, text: noCadvisor},
	{flag: "container-hints", class: noEffect, text: noCadvisor},
	{flag: "containerd", class: noEffect, text: noCadvisor},
	{flag: "containerd-namespace", class: noEffect, text: noCadvisor},
	{flag: "enable-load-reader", class: noEffect, text: noCadvisor, isSwitch: true},
	{flag: "event-storage-age-limit", class: noEffect, text: noCadvisor},
	{flag: "event-storage-event-limit", class: noEffect, text: noCadvisor},
	{flag: "log-cadvisor-usage", class: noEffect, text: noCadvisor, isSwitch: true},
	{flag: "storage-driver-user", class: noEffect, text: noCadvisor},
	{flag: "storage-driver-password", class: noEffect, text: noCadvisor},
	{flag: "storage-driver-host", class: noEffect, text: noCadvisor},
	{flag: "storage-driver-db", class: noEffect, text: noCadvisor},
	{flag: "storage-driver-table", class: noEffect, text: noCadvisor},
	{flag: "storage-driver-secure", class: noEffect, text: noCadvisor, isSwitch: true},
	{flag: "storage-driver-buffer-duration", class: noEffect, text: noCadvisor},
}

const (
	removedIn124 = "removed in Kubernetes v1.24: the network belongs to the container runtime"
	removedIn126 = "removed in Kubernetes v1.26: the log goes to standard error"
)

// removedSettings are flags that upstream has removed and that old service files still contain.
var removedSettings = []setting{
	{flag: "network-plugin", class: removed, text: removedIn124},
	{flag: "network-plugin-mtu", class: removed, text: removedIn124},
	{flag: "cni-bin-dir", class: removed, text: removedIn124},
	{flag: "cni-cache-dir", class: removed, text: removedIn124},
	{flag: "cni-conf-dir", class: removed, text: removedIn124},
	{flag: "docker-endpoint", class: removed, text: "removed in Kubernetes v1.24, with dockershim"},
	{flag: "image-pull-progress-deadline", class: removed, text: "removed in Kubernetes v1.24, with dockershim"},
	{flag: "dynamic-config-dir", class: removed, text: "removed in Kubernetes v1.24, with dynamic configuration"},
	{flag: "add-dir-header", class: removed, text: removedIn126, isSwitch: true},
	{flag: "alsologtostderr", class: removed, text: removedIn126, isSwitch: true},
	{flag: "log-backtrace-at", class: removed, text: removedIn126},
	{flag: "log-dir", class: removed, text: removedIn126},
	{flag: "log-file", class: removed, text: removedIn126},
	{flag: "log-file-max-size", class: removed, text: removedIn126},
	{flag: "logtostderr", class: removed, text: removedIn126, isSwitch: true},
	{flag: "one-output", class: removed, text: removedIn126, isSwitch: true},
	{flag: "skip-headers", class: removed, text: removedIn126, isSwitch: true},
	{flag: "skip-log-headers", class: removed, text: removedIn126, isSwitch: true},
	{flag: "stderrthreshold", class: removed, text: removedIn126},
	{flag: "container-runtime", class: removed, text: "removed in Kubernetes v1.27: every runtime uses CRI"},
	{flag: "master-service-namespace", class: removed, text: "removed in Kubernetes v1.27: without effect before"},
	{flag: "azure-container-registry-config", class: removed, text: "removed in Kubernetes v1.30: use --image-credential-provider-config"},
	{flag: "iptables-drop-bit", class: removed, text: "removed in Kubernetes v1.31: kube-proxy marks packets"},
	{flag: "iptables-masquerade-bit", class: removed, text: "removed in Kubernetes v1.31: kube-proxy marks packets"},
	{flag: "keep-terminated-pod-volumes", class: removed, text: "removed in Kubernetes v1.31: volumes of ended pods are unmounted", isSwitch: true},
	{flag: "cloud-config", class: removed, text: "removed in Kubernetes v1.34: use --cloud-provider=external"},
	{flag: "pod-infra-container-image", class: removed, text: "removed in Kubernetes v1.35: the container runtime selects the sandbox image"},
}
