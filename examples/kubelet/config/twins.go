package config

import (
	"errors"
	"reflect"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/node"
)

// A twin is a flag that overrides a field of the configuration file. The type of the field
// determines its parsing, checks and text.
type twin struct {
	group, name, field, usage string
	// sign separates key and value. Default: "=".
	sign string
	// read parses values in a special format. Optional.
	read func(text string) (any, error)
}

func (t twin) text(k *kubeletv1beta1.KubeletConfiguration) string {
	field, ok := fieldAt(reflect.ValueOf(k), t.field)
	if !ok {
		return ""
	}
	return showValue(field)
}

// value parses the flag's text as the value in a file.
func (t twin) value(text string) (any, error) {
	if t.read != nil {
		return t.read(text)
	}
	sign := t.sign
	if sign == "" {
		sign = "="
	}
	return readValue(fieldType(t.field), text, sign)
}

// twins returns the flags that override fields. A flag whose field has no effect here accepts only
// its default, as the file does.
func (l *commandLine) twins() []option {
	none := &kubeletv1beta1.KubeletConfiguration{}
	SetDefaults(none)
	out := make([]option, len(twins))
	for i, t := range twins {
		usage := t.usage + " [" + t.field + "]"
		if !honoured[t.field] {
			usage += "; has no effect, and takes only its default" + lack(t.field)
		}
		out[i] = option{
			group: t.group, name: t.name, usage: usage, isSwitch: fieldType(t.field).Kind() == reflect.Bool,
			text: func() string { return t.text(none) },
			set: func(text string) error {
				value, err := t.value(text)
				if err != nil {
					return err
				}
				fields := nested(t.field, value)
				if err := errors.Join(unsupported("", fields)...); err != nil {
					return err
				}
				add(l.fields, fields)
				return nil
			},
		}
	}
	return out
}

func nested(path string, value any) map[string]any {
	name, below, deeper := strings.Cut(path, ".")
	if deeper {
		return map[string]any{name: nested(below, value)}
	}
	return map[string]any{name: value}
}

// add merges fields into others. Repeated list flags such as --cluster-dns accumulate.
func add(to, fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case map[string]any:
			if below, ok := to[name].(map[string]any); ok {
				add(below, value)
				continue
			}
			to[name] = value
		case []any:
			before, _ := to[name].([]any)
			to[name] = append(before, value...)
		default:
			to[name] = value
		}
	}
}

func readHeaders(text string) (any, error) {
	out := map[string]any{}
	for _, pair := range list(text) {
		name, value, ok := strings.Cut(pair.(string), ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, errors.New("each pair must be name:value") // the error must not contain the value, which may be secret
		}
		before, _ := out[name].([]any)
		out[name] = append(before, strings.TrimSpace(value))
	}
	return out, nil
}

func readTaints(text string) (any, error) {
	taints, err := node.ParseTaints(text)
	out := make([]any, len(taints))
	for i, t := range taints {
		out[i] = map[string]any{"key": t.Key, "value": t.Value, "effect": string(t.Effect)}
	}
	return out, err
}

var twins = []twin{
	{group: groupNode, name: "register-node", field: "registerNode", usage: "make the Node; otherwise somebody else has to (default true)"},
	{group: groupNode, name: "register-with-taints", field: "registerWithTaints", usage: "taints of the Node at its registration, as key=value:effect,key:effect", read: readTaints},
	{group: groupNode, name: "provider-id", field: "providerID", usage: "what a cloud provider calls this machine"},
	{group: groupNode, name: "node-status-update-frequency", field: "nodeStatusUpdateFrequency", usage: "how often the status of the Node is made (default 10s)"},
	{group: groupNode, name: "node-status-max-images", field: "nodeStatusMaxImages", usage: "how many images the status of the Node names at most (default 50; -1: all)"},
	{group: groupNode, name: "kube-api-content-type", field: "contentType", usage: "what the API server is spoken to in: application/json, or application/vnd.kubernetes.protobuf (default)"},
	{group: groupNode, name: "kube-api-qps", field: "kubeAPIQPS", usage: "calls of the API server per second (default 50)"},
	{group: groupNode, name: "kube-api-burst", field: "kubeAPIBurst", usage: "calls of the API server at once (default 100)"},
	{group: groupNode, name: "event-qps", field: "eventRecordQPS", usage: "events per second (default 50; 0: no limit)"},
	{group: groupNode, name: "event-burst", field: "eventBurst", usage: "events at once (default 100)"},
	{group: groupNode, name: "enable-controller-attach-detach", field: "enableControllerAttachDetach", usage: "a controller attaches volumes to the node (default true)"},
	{group: groupNode, name: "rotate-certificates", field: "rotateCertificates", usage: "ask the API server for the next client certificate in time"},

	{group: groupPods, name: "pod-manifest-path", field: "staticPodPath", usage: "folder, or file, with the manifests of static pods"},
	{group: groupPods, name: "manifest-url", field: "staticPodURL", usage: "URL of static pods: a Pod or a PodList"},
	{group: groupPods, name: "manifest-url-header", field: "staticPodURLHeader", usage: "headers for --manifest-url, as name:value,name:value; may be given several times", read: readHeaders},
	{group: groupPods, name: "file-check-frequency", field: "fileCheckFrequency", usage: "how often the folder of manifests is read where nothing tells of changes (default 20s)"},
	{group: groupPods, name: "http-check-frequency", field: "httpCheckFrequency", usage: "how often --manifest-url is asked (default 20s)"},
	{group: groupPods, name: "sync-frequency", field: "syncFrequency", usage: "how long a pod goes without being looked at (default 1m)"},
	{group: groupPods, name: "cluster-dns", field: "clusterDNS", usage: "addresses of the cluster's name servers, with commas between"},
	{group: groupPods, name: "cluster-domain", field: "clusterDomain", usage: "domain of the cluster"},
	{group: groupPods, name: "resolv-conf", field: "resolvConf", usage: "file with the host's name servers (default /etc/resolv.conf; empty: none)"},
	{group: groupPods, name: "hairpin-mode", field: "hairpinMode", usage: "how a pod reaches itself through its service (default promiscuous-bridge)"},
	{group: groupPods, name: "pod-cidr", field: "podCIDR", usage: "addresses of pods on a node without an API server"},
	{group: groupPods, name: "volume-plugin-dir", field: "volumePluginDir", usage: "folder of flexvolume drivers"},
	{group: groupPods, name: "volume-stats-agg-period", field: "volumeStatsAggPeriod", usage: "how often the use of volumes is measured (default 1m)"},
	{group: groupPods, name: "runonce", field: "runOnce", usage: "start the pods and end"},

	{group: groupRuntime, name: "container-runtime-endpoint", field: "containerRuntimeEndpoint", usage: "CRI socket, or \"embedded\" for containers as host processes (default unix:///run/containerd/containerd.sock)"},
	{group: groupRuntime, name: "image-service-endpoint", field: "imageServiceEndpoint", usage: "CRI socket of the images (default: the runtime's)"},
	{group: groupRuntime, name: "runtime-request-timeout", field: "runtimeRequestTimeout", usage: "how long a call of the runtime may take (default 2m)"},
	{group: groupRuntime, name: "serialize-image-pulls", field: "serializeImagePulls", usage: "pull one image at a time (default true)"},
	{group: groupRuntime, name: "registry-qps", field: "registryPullQPS", usage: "pulls per second (default 5; 0: no limit)"},
	{group: groupRuntime, name: "registry-burst", field: "registryBurst", usage: "pulls at once, as far as --registry-qps counts (default 10)"},
	{group: groupRuntime, name: "minimum-image-ttl-duration", field: "imageMinimumGCAge", usage: "how old an unused image is before it may go (default 2m)"},
	{group: groupRuntime, name: "image-gc-high-threshold", field: "imageGCHighThresholdPercent", usage: "percent of the disk in use from which images go (default 85)"},
	{group: groupRuntime, name: "image-gc-low-threshold", field: "imageGCLowThresholdPercent", usage: "percent of the disk in use at which that ends (default 80)"},
	{group: groupRuntime, name: "container-log-max-size", field: "containerLogMaxSize", usage: "size at which a container's log is rotated (default 10Mi)"},
	{group: groupRuntime, name: "container-log-max-files", field: "containerLogMaxFiles", usage: "files of a container's log (default 5, at least 2)"},
	{group: groupRuntime, name: "cpu-cfs-quota", field: "cpuCFSQuota", usage: "hold containers to their CPU limits (default true)"},
	{group: groupRuntime, name: "cpu-cfs-quota-period", field: "cpuCFSQuotaPeriod", usage: "the period of that (default 100ms)"},
	{group: groupRuntime, name: "seccomp-default", field: "seccompDefault", usage: "containers that say nothing of seccomp get the runtime's profile"},
	{group: groupRuntime, name: "allowed-unsafe-sysctls", field: "allowedUnsafeSysctls", usage: "sysctls that pods may set though they are not safe"},
	{group: groupRuntime, name: "protect-kernel-defaults", field: "protectKernelDefaults", usage: "end rather than change settings of the kernel"},

	{group: groupServer, name: "enable-server", field: "enableServer", usage: "serve the kubelet API (default true, but for a node on its own of which nothing is said of who may use it)"},
	{group: groupServer, name: "address", field: "address", usage: "address of the kubelet API and of the read-only port (default 0.0.0.0)"},
	{group: groupServer, name: "port", field: "port", usage: "port of the kubelet API (default 10250)"},
	{group: groupServer, name: "read-only-port", field: "readOnlyPort", usage: "port that serves /pods and /statusz/pods without authentication (default 0: none)"},
	{group: groupServer, name: "healthz-port", field: "healthzPort", usage: "port of /healthz (default 10248; 0: none)"},
	{group: groupServer, name: "healthz-bind-address", field: "healthzBindAddress", usage: "address of /healthz (default 127.0.0.1)"},
	{group: groupServer, name: "anonymous-auth", field: "authentication.anonymous.enabled", usage: "let in who shows no credentials, as far as authorization allows (default false)"},
	{group: groupServer, name: "authentication-token-webhook", field: "authentication.webhook.enabled", usage: "let the API server tell whose a bearer token is (default true)"},
	{group: groupServer, name: "authentication-token-webhook-cache-ttl", field: "authentication.webhook.cacheTTL", usage: "how long an answer about a token counts (default 2m)"},
	{group: groupServer, name: "client-ca-file", field: "authentication.x509.clientCAFile", usage: "certificates of the authorities that vouch for clients of the kubelet API"},
	{group: groupServer, name: "authorization-mode", field: "authorization.mode", usage: "who may use the kubelet API: AlwaysAllow, or Webhook, which asks the API server (default)"},
	{group: groupServer, name: "authorization-webhook-cache-authorized-ttl", field: "authorization.webhook.cacheAuthorizedTTL", usage: "how long a permission counts (default 5m)"},
	{group: groupServer, name: "authorization-webhook-cache-unauthorized-ttl", field: "authorization.webhook.cacheUnauthorizedTTL", usage: "how long a refusal counts (default 30s)"},
	{group: groupServer, name: "tls-cert-file", field: "tlsCertFile", usage: "certificate of the kubelet API (default: one of its own making in --cert-dir)"},
	{group: groupServer, name: "tls-private-key-file", field: "tlsPrivateKeyFile", usage: "key of --tls-cert-file"},
	{group: groupServer, name: "tls-min-version", field: "tlsMinVersion", usage: "lowest version of TLS: VersionTLS12 (default) or VersionTLS13"},
	{group: groupServer, name: "tls-cipher-suites", field: "tlsCipherSuites", usage: "names of the cipher suites of TLS 1.2, with commas between (default: Go's)"},
	{group: groupServer, name: "rotate-server-certificates", field: "serverTLSBootstrap", usage: "ask the API server for the certificate of the kubelet API"},
	{group: groupServer, name: "enable-debugging-handlers", field: "enableDebuggingHandlers", usage: "logs, exec, attach and port-forward on the kubelet API (default true)"},
	{group: groupServer, name: "contention-profiling", field: "enableContentionProfiling", usage: "profiles of locks, beside the others"},
	{group: groupServer, name: "streaming-connection-idle-timeout", field: "streamingConnectionIdleTimeout", usage: "when a session ends over which nothing goes (default 4h)"},

	{group: groupLimits, name: "max-pods", field: "maxPods", usage: "pods on the node (default 110)"},
	{group: groupLimits, name: "pods-per-core", field: "podsPerCore", usage: "pods per CPU (default 0: no limit)"},
	{group: groupLimits, name: "pod-max-pids", field: "podPidsLimit", usage: "processes of a pod (default -1: no limit)"},
	{group: groupLimits, name: "cgroups-per-qos", field: "cgroupsPerQOS", usage: "cgroups of pods and of their classes (default true)"},
	{group: groupLimits, name: "cgroup-driver", field: "cgroupDriver", usage: "who makes cgroups: cgroupfs (default) or systemd"},
	{group: groupLimits, name: "cgroup-root", field: "cgroupRoot", usage: "cgroup above those of pods"},
	{group: groupLimits, name: "fail-cgroupv1", field: "failCgroupV1", usage: "do not start on a host with cgroup v1 (default true)"},
	{group: groupLimits, name: "fail-swap-on", field: "failSwapOn", usage: "do not start on a host that swaps (default true)"},
	{group: groupLimits, name: "cpu-manager-policy", field: "cpuManagerPolicy", usage: "who gets CPUs of its own: none (default) or static"},
	{group: groupLimits, name: "cpu-manager-policy-options", field: "cpuManagerPolicyOptions", usage: "details of that, as key=value"},
	{group: groupLimits, name: "cpu-manager-reconcile-period", field: "cpuManagerReconcilePeriod", usage: "how often that is put right (default 10s)"},
	{group: groupLimits, name: "memory-manager-policy", field: "memoryManagerPolicy", usage: "who gets memory of its own: None (default) or Static"},
	{group: groupLimits, name: "topology-manager-policy", field: "topologyManagerPolicy", usage: "how near to each other these are (default none)"},
	{group: groupLimits, name: "topology-manager-scope", field: "topologyManagerScope", usage: "for each container (default) or pod"},
	{group: groupLimits, name: "topology-manager-policy-options", field: "topologyManagerPolicyOptions", usage: "details of that, as key=value"},
	{group: groupLimits, name: "eviction-hard", field: "evictionHard", sign: "<", usage: "what ends pods at once, as signal<quantity"},
	{group: groupLimits, name: "eviction-soft", field: "evictionSoft", sign: "<", usage: "what ends pods after a while, as signal<quantity"},
	{group: groupLimits, name: "eviction-soft-grace-period", field: "evictionSoftGracePeriod", usage: "that while, as signal=duration"},
	{group: groupLimits, name: "eviction-pressure-transition-period", field: "evictionPressureTransitionPeriod", usage: "how long pressure counts on (default 5m)"},
	{group: groupLimits, name: "eviction-max-pod-grace-period", field: "evictionMaxPodGracePeriod", usage: "seconds that an evicted pod gets at most"},
	{group: groupLimits, name: "eviction-minimum-reclaim", field: "evictionMinimumReclaim", usage: "how much is to be won, as resource=quantity"},
	{group: groupLimits, name: "kernel-memcg-notification", field: "kernelMemcgNotification", usage: "let the kernel tell of thresholds"},
	{group: groupLimits, name: "local-storage-capacity-isolation", field: "localStorageCapacityIsolation", usage: "limits of ephemeral storage (default true)"},
	{group: groupLimits, name: "reserved-cpus", field: "reservedSystemCPUs", usage: "CPUs that pods do not get"},
	{group: groupLimits, name: "system-reserved", field: "systemReserved", usage: "what the system keeps, as resource=quantity"},
	{group: groupLimits, name: "kube-reserved", field: "kubeReserved", usage: "what kubelet and runtime keep, as resource=quantity"},
	{group: groupLimits, name: "system-reserved-cgroup", field: "systemReservedCgroup", usage: "cgroup of the system"},
	{group: groupLimits, name: "kube-reserved-cgroup", field: "kubeReservedCgroup", usage: "cgroup of kubelet and runtime"},
	{group: groupLimits, name: "enforce-node-allocatable", field: "enforceNodeAllocatable", usage: "whom these limits hold (default pods)"},
	{group: groupLimits, name: "qos-reserved", field: "qosReserved", usage: "what is kept for better classes, as resource=percent"},

	{group: groupProcess, name: "v", field: "logging.verbosity", usage: "log verbosity; 4 and more is debug output"},
	{group: groupProcess, name: "logging-format", field: "logging.format", usage: "how a line of the log looks: text (default) or json"},
	{group: groupProcess, name: "log-flush-frequency", field: "logging.flushFrequency", usage: "how long a line may wait (default 5s; here none does)"},
	{group: groupProcess, name: "feature-gates", field: "featureGates", usage: "switches as name=true,name=false, key by key over the file's"},
	{group: groupProcess, name: "oom-score-adj", field: "oomScoreAdj", usage: "how gladly the kernel kills the kubelet (default -999)"},
	{group: groupProcess, name: "max-open-files", field: "maxOpenFiles", usage: "files that the kubelet may have open (default 1000000)"},
	{group: groupProcess, name: "kubelet-cgroups", field: "kubeletCgroups", usage: "cgroup that the kubelet runs in"},
	{group: groupProcess, name: "system-cgroups", field: "systemCgroups", usage: "cgroup of processes that are in none"},
	{group: groupLimits, name: "make-iptables-util-chains", field: "makeIPTablesUtilChains", usage: "make the iptables chains that others rely on (default true; not with the embedded runtime)"},
}
