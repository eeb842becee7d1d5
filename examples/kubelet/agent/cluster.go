package agent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/csinodes"
	"github.com/podwright/podwright/examples/kubelet/apiserver/events"
	"github.com/podwright/podwright/examples/kubelet/apiserver/mirrors"
	"github.com/podwright/podwright/examples/kubelet/apiserver/objects"
	"github.com/podwright/podwright/examples/kubelet/apiserver/pods"
	"github.com/podwright/podwright/examples/kubelet/certificates"
	kubelet "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop/podsource"
)

// cluster is the agent's part that uses the API server. It needs no runtime. Methods that are
// called without an API server accept nil.
type cluster struct {
	runtime            *connected
	client, heartbeats *apiserver.Client
	self               *apiserver.Feed[*v1.Node, *v1.NodeList]
	live               *liveNode
	recorder           *events.Recorder
	objects            *objects.Objects
	mirrors            *mirrors.Manager
	csiNode            *csinodes.Manager
	pods               *pods.Source // run as one of the sources
	sink               pods.Sink
	node               *kubelet.Node
	rotation           *certificates.Rotator

	mu      sync.Mutex
	waiting []func() // callbacks for changes of the Node
}

// onNode registers a callback for changes of the Node. The callback must not block.
func (c *cluster) onNode(wake func()) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, wake)
}

// newCluster builds three clients of the API server: one for events, one for heartbeats, which has
// no rate limit, and one for all other requests. runtime receives the statuses of pods from the
// server.
func newCluster(cfg *Config, changes *objectChanges, runtime *connected) (c *cluster, err error) {
	if cfg.Flags.Kubeconfig == "" {
		return nil, nil
	}
	k, name, log := &cfg.Kubelet, cfg.Flags.NodeName, cfg.Logger
	c = &cluster{runtime: runtime}
	if c.client, err = newClient(cfg); err != nil {
		return nil, err
	}
	timeout := min(k.NodeStatusUpdateFrequency.Duration, time.Duration(k.NodeLeaseDurationSeconds)*time.Second)
	if c.heartbeats, err = c.client.With(apiserver.Limits{QPS: -1, Timeout: timeout}); err != nil {
		return nil, err
	}
	c.live = newLiveNode(func(ctx context.Context) (*v1.Node, error) { return c.heartbeats.OwnNode().GetNode(ctx, name) })
	forEvents, err := c.client.With(apiserver.Limits{QPS: float32(unlimited(int(*k.EventRecordQPS))), Burst: int(k.EventBurst)})
	if err != nil {
		return nil, err
	}
	if c.recorder, err = events.New(events.Config{Client: forEvents, Component: "kubelet", Host: name, Logger: log}); err != nil {
		return nil, err
	}
	c.self, err = apiserver.NewFeed(apiserver.FeedConfig[*v1.Node, *v1.NodeList]{
		Resource:      c.client.Nodes(),
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
		Check:         apiserver.CheckNode,
		OnChange:      func([]types.NamespacedName) { c.nodeChanged() },
		Logger:        log,
	})
	if err != nil {
		return nil, err
	}
	if c.objects, err = objects.New(objects.Config{Client: c.client, OnChange: changes.add, Logger: log}); err != nil {
		return nil, err
	}
	if c.mirrors, err = mirrors.New(mirrors.Config{Client: c.client, Node: c.thisNode, Logger: log}); err != nil {
		return nil, err
	}
	if c.csiNode, err = csinodes.New(csinodes.Config{Client: c.client, NodeName: name, Node: c.thisNode, Logger: log}); err != nil {
		return nil, err
	}
	if c.sink, err = pods.NewSink(c.client, name); err != nil {
		return nil, err
	}
	if c.node, err = newSelf(cfg, c); err != nil {
		return nil, err
	}
	c.rotation, err = newClientRotation(cfg, c.client)
	return c, err
}

// newClient returns a client of the API server. Pods need neither the server nor a credential, so
// it accepts a kubeconfig that the bootstrap will replace.
func newClient(cfg *Config) (*apiserver.Client, error) {
	k, flags := &cfg.Kubelet, &cfg.Flags
	client := apiserver.Config{
		Kubeconfig:  flags.Kubeconfig,
		Await:       flags.BootstrapKubeconfig != "",
		UserAgent:   "podwright-kubelet/" + kubelet.Version,
		ContentType: k.ContentType,
		Limits:      apiserver.Limits{QPS: float32(unlimited(int(*k.KubeAPIQPS))), Burst: int(k.KubeAPIBurst)},
		Dial:        cfg.DialAPI,
		Wrap:        cfg.Metrics.Client.Count,
		Logger:      cfg.Logger,
	}
	if k.RotateCertificates {
		client.CertificateFile = clientStore(cfg).CurrentPath()
	}
	return apiserver.New(client)
}

func clientStore(cfg *Config) certificates.Store {
	return certificates.Store{Dir: cfg.Flags.CertDir, Name: "kubelet-client"}
}

// newClientRotation renews the node's client certificate with rotateCertificates, and requests the
// first one with a bootstrap kubeconfig. It returns nil without either.
func newClientRotation(cfg *Config, client *apiserver.Client) (*certificates.Rotator, error) {
	flags := &cfg.Flags
	if !cfg.Kubelet.RotateCertificates && flags.BootstrapKubeconfig == "" {
		return nil, nil
	}
	return certificates.NewRotator(certificates.RotatorConfig{
		Client: client, Signer: certv1.KubeAPIServerClientKubeletSignerName, Store: clientStore(cfg),
		Template:  func() *x509.CertificateRequest { return certificates.ClientRequest(flags.NodeName) },
		Bootstrap: flags.BootstrapKubeconfig, BootstrapOnly: !cfg.Kubelet.RotateCertificates,
		OnError: cfg.Metrics.Certificates.Client.Failed,
		Logger:  cfg.Logger,
	})
}

// credential returns the reason why the agent has no usable credential for the API server, or why
// it cannot renew it. It returns nil without such a reason.
func (c *cluster) credential() error {
	err := c.client.Err()
	if c.rotation == nil {
		return err
	}
	request, since := c.rotation.Awaited()
	last := c.rotation.Err()
	switch {
	case err == nil && last != nil:
		return fmt.Errorf("not renewed: %w", last)
	case err == nil:
		return nil
	case request != "":
		return fmt.Errorf("%w; certificate signing request %s waits for its approval since %s", err, request, since.UTC().Format(time.RFC3339))
	case last != nil && last.Error() != err.Error():
		return fmt.Errorf("%w; last request: %w", err, last)
	}
	return err
}

func (c *cluster) newPods(cfg *Config, merger *podsource.Merger) (source *pods.Source, err error) {
	c.pods, err = pods.NewSource(pods.SourceConfig{
		Client: c.client, NodeName: cfg.Flags.NodeName, Merger: merger, OnPod: func(pod *v1.Pod) { c.podSeen(pod); cfg.Metrics.Pods.AtAPI(pod) }, Logger: cfg.Logger,
	})
	return c.pods, err
}

// run runs all parts but the Node's until ctx is done. Its error ends the agent.
func (c *cluster) run(ctx context.Context) error {
	parts := []func(context.Context) error{c.client.Run, c.self.Run, c.live.run, c.recorder.Run, c.objects.Run, c.mirrors.Run, c.csiNode.Run}
	if c.rotation != nil {
		parts = append(parts, c.rotation.Run)
	}
	return run.All(ctx, parts...)
}

func (c *cluster) podSeen(pod *v1.Pod) {
	if n, _ := c.runtime.get(); n != nil {
		n.syncer.Statuses().Observe(apiSource, pod)
	}
}

// nodeChanged wakes the parts that depend on the Node or on its attached volumes.
func (c *cluster) nodeChanged() {
	c.mirrors.Wake()
	c.csiNode.Wake()
	c.mu.Lock()
	waiting := slices.Clone(c.waiting)
	c.mu.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

func (c *cluster) notReady() (why []string) {
	n, err := c.runtime.get()
	if n == nil {
		why = []string{"container runtime: " + err.Error()}
	} else {
		why = n.notReady()
	}
	if !c.csiNode.Initialised() {
		why = append(why, errNoCSINode.Error())
	}
	return why
}

var errNoCSINode = errors.New("the CSINode of this node does not exist yet")

// look implements node.Config.Look. The CSINode needs the Node.
func (c *cluster) look(ctx context.Context) error {
	n, err := c.runtime.get()
	if n == nil {
		return fmt.Errorf("container runtime: %w", err)
	}
	if c.node.State().UID != "" && !c.csiNode.Initialised() {
		return errNoCSINode
	}
	return n.look(ctx)
}

// writeNode writes the status of the Node now instead of at its next period.
func (c *cluster) writeNode() {
	if c != nil {
		c.node.Wake()
	}
}

// thisNode returns the Node as last seen at the server, or nil.
func (c *cluster) thisNode() *v1.Node {
	if c == nil {
		return nil
	}
	for _, n := range c.self.All() {
		return n
	}
	return nil
}

// health returns an error while the API server is unreachable or this node's objects there are
// outdated.
func (c *cluster) health() error {
	if err := c.pods.Err(); err != nil {
		return fmt.Errorf("pods of this node: %w", err)
	}
	if err := c.node.Health(); err != nil {
		return err
	}
	return c.csiNode.Err()
}
