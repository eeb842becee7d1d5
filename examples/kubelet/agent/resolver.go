package agent

import v1 "k8s.io/api/core/v1"

// checkResolver records an event if the node's resolver settings exceed the limits for pods.
func checkResolver(cfg *Config, recorder recorder) {
	if err := dns(&cfg.Kubelet).CheckHostResolver(); err != nil {
		recorder.ofNode(v1.EventTypeWarning, "CheckLimitsForResolvConf", err.Error())
	}
}
