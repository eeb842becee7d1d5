package agent

import v1 "k8s.io/api/core/v1"

// checkResolver tells, once, what of the node's resolver pods do not get.
func (g *ground) checkResolver() {
	if err := dns(&g.cfg.Kubelet).CheckHostResolver(); err != nil {
		g.event(nodeReference(g.cfg.Flags.NodeName), v1.EventTypeWarning, "CheckLimitsForResolvConf", err.Error())
	}
}
