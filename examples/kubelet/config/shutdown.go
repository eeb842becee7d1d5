package config

import (
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// longestShutdown bounds the sum of all grace periods, so that sums cannot overflow.
const longestShutdown = 7 * 24 * time.Hour

func (p *problems) shutdown(k *kubeletv1beta1.KubeletConfiguration) {
	total, critical, groups := k.ShutdownGracePeriod.Duration, k.ShutdownGracePeriodCriticalPods.Duration, k.ShutdownGracePeriodByPodPriority
	period := func(field string, d time.Duration) {
		p.refuse(d != 0 && d < time.Second || d > longestShutdown, "%s: %s is neither 0 nor within 1s and %s", field, d, longestShutdown)
	}
	period("shutdownGracePeriod", total)
	period("shutdownGracePeriodCriticalPods", critical)
	p.refuse(critical > total, "shutdownGracePeriodCriticalPods: %s is more than shutdownGracePeriod: %s", critical, total)
	p.refuse(len(groups) > 0 && (total != 0 || critical != 0),
		"shutdownGracePeriodByPodPriority: contradicts shutdownGracePeriod and shutdownGracePeriodCriticalPods")
	seen, left := map[int32]bool{}, int64(longestShutdown/time.Second)
	for i, g := range groups {
		p.refuse(seen[g.Priority], "shutdownGracePeriodByPodPriority[%d].priority: %d is set twice", i, g.Priority)
		seen[g.Priority] = true
		wrong := g.ShutdownGracePeriodSeconds < 0 || g.ShutdownGracePeriodSeconds > left
		p.refuse(wrong, "shutdownGracePeriodByPodPriority[%d].shutdownGracePeriodSeconds: %d is negative, or more than %s in all", i, g.ShutdownGracePeriodSeconds, longestShutdown)
		if !wrong {
			left -= g.ShutdownGracePeriodSeconds
		}
	}
}
