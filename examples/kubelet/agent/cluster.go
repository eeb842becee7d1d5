package agent

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/events"
	"github.com/podwright/podwright/examples/kubelet/apiserver/objects"
	"github.com/podwright/podwright/examples/kubelet/apiserver/pods"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// cluster is what an agent has of an API server. It needs no runtime: a node whose runtime
// is away says so.
type cluster struct {
	client, heartbeats *apiserver.Client
	// self is the Node as others see it.
	self     *apiserver.Feed[*v1.Node, *v1.NodeList]
	recorder *events.Recorder
	objects  *objects.Objects
	pods     *pods.Source // read by whoever runs the sources
	sink     pods.Sink
	node     *kubelet.Node
}

// newClients reaches the API server: for all, for events and for heartbeats, which wait
// for nobody.
func (g *ground) newClients() (c *cluster, recorder *events.Recorder, err error) {
	k := &g.cfg.Kubelet
	c = &cluster{}
	c.client, err = apiserver.New(apiserver.Config{
		Kubeconfig:  g.cfg.Flags.Kubeconfig,
		UserAgent:   "podwright-kubelet/" + kubelet.Version,
		ContentType: k.ContentType,
		Limits:      apiserver.Limits{QPS: float32(unlimited(int(*k.KubeAPIQPS))), Burst: int(k.KubeAPIBurst)},
		Logger:      g.cfg.Logger,
	})
	if err != nil {
		return nil, nil, err
	}
	timeout := min(k.NodeStatusUpdateFrequency.Duration, time.Duration(k.NodeLeaseDurationSeconds)*time.Second)
	if c.heartbeats, err = c.client.With(apiserver.Limits{QPS: -1, Timeout: timeout}); err != nil {
		return nil, nil, err
	}
	forEvents, err := c.client.With(apiserver.Limits{QPS: float32(unlimited(int(*k.EventRecordQPS))), Burst: int(k.EventBurst)})
	if err != nil {
		return nil, nil, err
	}
	c.recorder, err = events.New(events.Config{Client: forEvents, Component: "kubelet", Host: g.cfg.Flags.NodeName, Logger: g.cfg.Logger})
	return c, c.recorder, err
}

// complete builds what stands on the clients. now is how far the agent has come: what is
// seen at the server is told to it.
func (c *cluster) complete(g *ground, now func() state) (err error) {
	name := g.cfg.Flags.NodeName
	c.self, err = apiserver.NewFeed(apiserver.FeedConfig[*v1.Node, *v1.NodeList]{
		Resource:      c.client.Nodes(),
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
		Logger:        g.cfg.Logger,
	})
	if err != nil {
		return err
	}
	if c.objects, err = objects.New(objects.Config{Client: c.client, Logger: g.cfg.Logger, OnChange: func(changed []volume.Object) {
		if n := now().node; n != nil {
			n.objectsChanged(changed)
		}
	}}); err != nil {
		return err
	}
	if c.pods, err = pods.NewSource(pods.SourceConfig{Client: c.client, NodeName: name, Merger: g.merger, Logger: g.cfg.Logger, OnPod: func(pod *v1.Pod) {
		if n := now().node; n != nil {
			n.statuses.Observe(apiSource, pod)
		}
	}}); err != nil {
		return err
	}
	if c.sink, err = pods.NewSink(c.client); err != nil {
		return err
	}
	c.node, err = g.newNode(c, now)
	return err
}

// run keeps up with the API server until ctx ends. An error is one that ends the agent.
func (c *cluster) run(ctx context.Context) error {
	return run.All(ctx, c.client.Run, c.self.Run, c.recorder.Run, c.objects.Run, c.node.Run)
}

// thisNode is the Node as it was seen last, nil if it was not seen yet.
func (c *cluster) thisNode() *v1.Node {
	for _, n := range c.self.All() {
		return n
	}
	return nil
}

// health is what is wrong with the API server, or with what it has of this node.
func (c *cluster) health() error {
	if err := c.pods.Err(); err != nil {
		return fmt.Errorf("pods of this node: %w", err)
	}
	return c.node.Health()
}
