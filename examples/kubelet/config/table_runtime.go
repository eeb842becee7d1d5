package config

import "time"

var runtimeSettings = []setting{
	{field: "containerRuntimeEndpoint", flag: "container-runtime-endpoint", text: "CRI socket, or \"embedded\" for containers as host processes"},
	{field: "imageServiceEndpoint", flag: "image-service-endpoint", text: "CRI socket of images", preset: "containerRuntimeEndpoint"},
	{field: "runtimeRequestTimeout", flag: "runtime-request-timeout", text: "timeout of a call to the runtime", limits: atLeast(1)},
	{flag: "adaptive-relist", text: "adapt relists of a runtime without events: every 100 ms after activity, every 5 s at rest; not in upstream", isSwitch: true, to: func(l *commandLine) any { return &l.flags.AdaptiveRelist }},
	{flag: "runtime-cgroups", text: "cgroup of the runtime, for /stats/summary; its processes are not moved", to: func(l *commandLine) any { return &l.flags.RuntimeCgroups }},

	{flag: "image-credential-provider-config", text: "file, or folder of files, of the kind CredentialProviderConfig: plugins for registry credentials", to: func(l *commandLine) any { return &l.flags.CredentialProviderConfig }},
	{flag: "image-credential-provider-bin-dir", text: "folder of the plugins' programs", isPath: true, to: func(l *commandLine) any { return &l.flags.CredentialProviderBinDir }},
	{field: "serializeImagePulls", flag: "serialize-image-pulls", text: "pull one image at a time", preset: "true, unless maxParallelImagePulls is above 1"},
	{field: "maxParallelImagePulls", text: "limit of image pulls at once if serializeImagePulls is false", limits: atLeast(0)},
	{field: "registryPullQPS", flag: "registry-qps", text: "image pulls per second; 0: no limit", limits: atLeast(0)},
	{field: "registryBurst", flag: "registry-burst", text: "limit of image pulls at once above registryPullQPS", limits: atLeast(0)},
	{field: "imagePullCredentialsVerificationPolicy", text: "images whose credentials are verified for each pod", allowed: []string{"NeverVerifyPreloadedImages", "NeverVerify", "NeverVerifyAllowlistedImages", "AlwaysVerify"}},
	{field: "preloadedImagesVerificationAllowlist", text: "images that are exempt with the policy NeverVerifyAllowlistedImages"},
	{field: "imageMinimumGCAge", flag: "minimum-image-ttl-duration", text: "age of an unused image before it can be removed", limits: atLeast(0)},
	{field: "imageMaximumGCAge", text: "age of an unused image at which it is removed; 0: never", limits: atLeast(0)},
	{field: "imageGCHighThresholdPercent", flag: "image-gc-high-threshold", text: "disk usage in percent that starts image garbage collection", limits: within(0, 100)},
	{field: "imageGCLowThresholdPercent", flag: "image-gc-low-threshold", text: "disk usage in percent that ends image garbage collection", limits: within(0, 100)},

	{field: "podLogsDir", text: "folder of container logs", isPath: true},
	{field: "containerLogMaxSize", flag: "container-log-max-size", text: "size at which a container's log is rotated; negative: no rotation"},
	{field: "containerLogMaxFiles", flag: "container-log-max-files", text: "limit of files of a container's log", limits: atLeast(2)},
	{field: "containerLogMaxWorkers", text: "limit of log rotations at once", limits: atLeast(1)},
	{field: "containerLogMonitorInterval", text: "period of log rotation", limits: atLeast(int64(3 * time.Second))},
	{flag: "maximum-dead-containers", text: "limit of dead containers to keep, in addition to the newest of each name; negative: no limit", to: func(l *commandLine) any { return &l.flags.MaxDeadContainers }},
	{flag: "maximum-dead-containers-per-container", text: "limit of dead instances of each container to keep; negative: no limit", to: func(l *commandLine) any { return &l.flags.MaxDeadPerContainer }},
	{flag: "minimum-container-ttl-duration", text: "age of a dead container before it can be removed", to: func(l *commandLine) any { return &l.flags.MinContainerTTL }},
	{field: "crashLoopBackOff.maxContainerRestartPeriod", text: "longest back-off of a crashing container", limits: within(int64(time.Second), int64(5*time.Minute))},

	{field: "cpuCFSQuota", flag: "cpu-cfs-quota", text: "enforce CPU limits"},
	{field: "cpuCFSQuotaPeriod", flag: "cpu-cfs-quota-period", text: "period of CPU quotas", limits: within(int64(time.Millisecond), int64(time.Second))},
	{field: "seccompDefault", flag: "seccomp-default", text: "use the runtime's seccomp profile for containers without one"},
	{field: "allowedUnsafeSysctls", flag: "allowed-unsafe-sysctls", text: "unsafe sysctls that pods may set"},
	{field: "singleProcessOOMKill", text: "kill only one process of a container that exceeds its memory", preset: "true on cgroup v1, false on cgroup v2"},
	{field: "memorySwap.swapBehavior", text: "swap of containers", allowed: []string{NoSwap, LimitedSwap}},
	{field: "userNamespaces.idsPerPod", text: "user IDs of a pod with a user namespace, a multiple of 65536"},
	{field: "memoryThrottlingFactor", class: noEffect, text: "it needs the feature gate MemoryQoS, which is not supported"},
	{field: "memoryReservationPolicy", class: refused, text: "it needs the feature gate MemoryQoS, which is not supported", allowed: []string{"None", "TieredReservation"}},
}

// port describes a port that can be off.
const port = "a port (0 to 65535)"

var serverSettings = []setting{
	{field: "enableServer", flag: "enable-server", text: "serve the kubelet API", preset: "true, but false without --kubeconfig and without authentication settings"},
	{field: "address", flag: "address", text: "address of the kubelet API and the read-only port"},
	{field: "port", flag: "port", text: "port of the kubelet API", want: "a port (1 to 65535)", limits: within(1, 65535)},
	{field: "readOnlyPort", flag: "read-only-port", text: "port without authentication that serves /pods and /statusz/pods; 0: none", preset: "0; with the embedded runtime and without --kubeconfig, a free port of loopback", want: port, limits: within(0, 65535)},
	{field: "healthzPort", flag: "healthz-port", text: "port of /healthz; 0: none", want: port, limits: within(0, 65535)},
	{field: "healthzBindAddress", flag: "healthz-bind-address", text: "address of /healthz"},
	{field: "authentication.anonymous.enabled", flag: "anonymous-auth", text: "accept requests without credentials, as user system:anonymous"},
	{field: "authentication.webhook.enabled", flag: "authentication-token-webhook", text: "verify bearer tokens at the API server", preset: "true, but false without --kubeconfig"},
	{field: "authentication.webhook.cacheTTL", flag: "authentication-token-webhook-cache-ttl", text: "lifetime of a verified token in the cache", limits: atLeast(0)},
	{field: "authentication.x509.clientCAFile", flag: "client-ca-file", text: "certificates of the authorities for client certificates", isPath: true},
	{field: "authorization.mode", flag: "authorization-mode", text: "authorization by the API server, or of all requests", allowed: []string{"Webhook", "AlwaysAllow"}},
	{field: "authorization.webhook.cacheAuthorizedTTL", flag: "authorization-webhook-cache-authorized-ttl", text: "lifetime of a permission in the cache", limits: atLeast(0)},
	{field: "authorization.webhook.cacheUnauthorizedTTL", flag: "authorization-webhook-cache-unauthorized-ttl", text: "lifetime of a refusal in the cache", limits: atLeast(0)},
	{field: "tlsCertFile", flag: "tls-cert-file", text: "certificate of the kubelet API", preset: "a self-signed certificate in --cert-dir", isPath: true},
	{field: "tlsPrivateKeyFile", flag: "tls-private-key-file", text: "key of the certificate", isPath: true},
	{field: "tlsMinVersion", flag: "tls-min-version", text: "lowest version of TLS: VersionTLS12 or VersionTLS13", preset: "VersionTLS12"},
	{field: "tlsCipherSuites", flag: "tls-cipher-suites", text: "cipher suites of TLS 1.2, separated by commas", preset: "Go's suites"},
	{field: "tlsCurvePreferences", text: "key exchanges of TLS, by number", preset: "Go's key exchanges"},
	{field: "serverTLSBootstrap", flag: "rotate-server-certificates", text: "request the certificate of the kubelet API from the API server"},
	{field: "streamingConnectionIdleTimeout", flag: "streaming-connection-idle-timeout", text: "idle time after which a session of exec, attach or port-forward ends", limits: atLeast(0)},
	{field: "enableDebuggingHandlers", flag: "enable-debugging-handlers", text: "serve logs, exec, attach and port-forward"},
	{field: "enableProfilingHandler", text: "serve /debug/pprof"},
	{field: "enableContentionProfiling", flag: "contention-profiling", text: "profile the waits for locks"},
	{field: "enableDebugFlagsHandler", text: "serve /debug/flags/v, which sets the log's verbosity"},
	{field: "enableSystemLogHandler", text: "serve /logs"},
	{field: "enableSystemLogQuery", text: "serve queries of /logs"},
	{field: "showHiddenMetricsForVersion", class: noEffect, text: "this kubelet hides no metrics"},
}
