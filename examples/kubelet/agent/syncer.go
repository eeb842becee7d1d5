package agent

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/syncloop"
)

// owner owns the pods of a kubelet, so that ours and an upstream kubelet can replace each other.
var owner = cri.Owner{Unlabelled: true}

func (n *node) newSyncer() (*podsyncer.Syncer, error) {
	in, cfg, c := n.in, n.in.cfg, n.in.cluster
	addresses := addresses{list: func() []string { return podHostIPs(c.thisNode(), cfg.Flags.NodeIP, c == nil) }}
	observer, err := observe.New(observe.Config{Runtime: n.conn.Runtime, RuntimeName: n.conn.Name, Owner: owner, NodeIPs: addresses.get, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	runner, err := hooks.New(hooks.Config{Exec: n.conn.Runtime, PodIPs: observer.PodIPs, Event: in.recorder.event, Metrics: cfg.Metrics.Pods.Hooks()})
	if err != nil {
		return nil, err
	}
	probers, err := probers(n.conn.Runtime)
	if err != nil {
		return nil, err
	}
	return podsyncer.New(podsyncer.Config{
		Pods:            n.podsConfig(runner, addresses.get),
		Checkpoint:      in.checkpoint,
		Statuses:        statusConfig(cfg.Metrics, c),
		PLEG:            pleg.Config{Runtime: observer, AdaptiveRelist: cfg.Flags.AdaptiveRelist, Metrics: cfg.Metrics.Observer.Callbacks()},
		Probes:          probe.Config{Probers: probers, Metrics: cfg.Metrics.Probes.Callbacks()},
		Workers:         podworkers.Config{ResyncInterval: cfg.Kubelet.SyncFrequency.Duration, OnTransition: cfg.Metrics.Pods.Moved, OnCall: cfg.Metrics.Pods.Called},
		Handler:         n.handlerConfig(),
		Loop:            n.loopConfig(),
		Stages:          n.stages,
		DeadContainers:  deadContainers(&cfg.Flags),
		NetworkReady:    n.health.networkReady,
		HostIPs:         addresses.get,
		Elsewhere:       c.elsewhere(),
		Amend:           func(pod *v1.Pod, s v1.PodStatus) v1.PodStatus { return amend(n.allocation, pod, s) },
		OnSync:          c.mirror(),
		Span:            cfg.Span,
		ShutdownTimeout: cfg.ShutdownTimeout,
		Event:           in.recorder.event,
		Logger:          cfg.Logger,
	})
}

func (n *node) podsConfig(runner *hooks.Runner, addresses func() []string) pods.Config {
	in, cfg, c := n.in, n.in.cfg, n.in.cluster
	node := describeNode(cfg.Config)
	node.Allocatable = in.machine.forPods()
	return pods.Config{
		Runtime:           n.conn.Runtime,
		Images:            n.images,
		RuntimeName:       n.conn.Name,
		Owner:             owner,
		LogRoot:           cfg.Kubelet.PodLogsDir,
		LinkDir:           cfg.Flags.ContainerLogsDir,
		PodDir:            in.folders.pod,
		MaxCrashLoopDelay: cfg.Kubelet.CrashLoopBackOff.MaxContainerRestartPeriod.Duration,
		Inputs: request.Inputs{
			ConfigMaps: in.references, Secrets: in.references, Volumes: n.volumes.manager, SubPaths: n.volumes.subPaths,
			Services: c.services(), ExtraGroups: n.volumes.manager.ExtraGroups,
			UserNamespace: n.users.Of, HandlerFeatures: c.handlerFeatures(n.health), NodeIPs: addresses,
		},
		RuntimeHandler: c.runtimeHandler(),
		Hooks:          runner,
		Metrics:        cfg.Metrics.Pods.Callbacks(),
		Actuated:       in.actuated,
		CgroupParent:   n.cgroups.parent(),
		PodCgroups:     n.cgroups.resizes(),
		Node:           node,
		DNS:            dns(&cfg.Kubelet),
	}
}

func (n *node) handlerConfig() syncloop.HandlerConfig {
	cleaners := []syncloop.Cleaner{n.volumes.cleaner(n.in.sources.merger.Ready), n.allocation.Cleaner(n.in.actuated.Store), n.in.recorder.recent.cleaner()}
	if c := n.in.cluster; c != nil {
		cleaners = append(cleaners, c.mirrors.Cleaner(), c.objectsCleaner(n.volumes.manager))
	}
	metrics := n.in.cfg.Metrics.Pods
	return syncloop.HandlerConfig{
		PerSource: true,
		Desired:   &n.lifecycle.desired, Admit: counted(metrics.Rejected, n.allocation.Admitter(n.newAdmitter()).Admit), Order: n.lifecycle.order,
		Allocator: n.allocation, OnRestart: metrics.Restarted, Cleaners: cleaners,
	}
}

func (n *node) loopConfig() syncloop.Config {
	sources := n.in.sources.events()
	sources["volumes"] = &n.in.dirty
	return syncloop.Config{
		Pods:       n.in.sources.merger,
		Sources:    sources,
		Health:     n.health.runtimeHealth,
		StallLimit: max(5*time.Minute, 2*n.in.cfg.Kubelet.SyncFrequency.Duration),
	}
}
