package pods_test

// deliberate lists the intended differences from the upstream kubelet's requests, each with its
// reason.
var deliberate = []exception{
	{
		pods: "ports-init", field: "sandboxes/0/config/port_mappings",
		reason: "The host ports of sidecars work. Upstream leaves them out, though they run as long as the pod.",
	},
	{
		pods: "group-only", field: "sandboxes/0/config/linux/security_context/run_as_group",
		reason: "containerd refuses a sandbox with a group and no user: upstream pods with runAsGroup alone do not start.",
	},
	{
		pods: "volumes-own-files", field: "containers/termination#0/config/mounts",
		reason: "A volume that the pod mounts at the termination message path stays visible. Upstream mounts its file over it.",
	},
	{
		pods: "stop-signal", field: "containers/app#0/config/stop_signal",
		reason: "lifecycle.stopSignal is honoured. Upstream has it behind the feature gate ContainerStopSignals, which is off.",
	},
	{
		pods: "host-network", field: "containers/app#0/config/envs/*/value",
		reason: "The address of a host-network pod is its node's. Upstream fills it in too, but not without an API server.",
	},
}
