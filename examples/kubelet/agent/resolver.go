package agent

import v1 "k8s.io/api/core/v1"

// checkResolver records an event if pods cannot get all settings of the node's resolver.
func checkResolver(cfg *Config, recorder recorder) {
	if err := dns(&cfg.Kubelet).CheckHostResolver(); err != nil {
		recorder.ofNode(v1.EventTypeWarning, "CheckLimitsForResolvConf", err.Error())
	}
}
