package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/fields"
	nodestatus "github.com/podwright/podwright/status/node"
)

// Version is the reported kubelet version: the release of Kubernetes whose behaviour the agent has,
// and the release of podwright.
const Version = "v1.36.3+podwright." + podwright.Version

// GathererConfig configures a Gatherer. Root is required. A nil function means that its facts are
// unknown, which differs from absent: see Facts of status/node.
type GathererConfig struct {
	// Root is the root of the machine's file system: os.DirFS("/").
	Root fs.FS
	// Storage returns the size in bytes of the file system with the pods' folders; see StorageOf.
	// nil means that storage is not counted (localStorageCapacityIsolation: false).
	Storage func() (int64, error)
	// Reserved is the part of the capacity that pods cannot use.
	Reserved Reservations
	// MaxPods and PodsPerCore are the configuration's limits. Defaults: 110, and no limit per core.
	MaxPods, PodsPerCore int32
	// MaxImages is nodeStatusMaxImages, the number of images in the status. Negative means all,
	// zero means none.
	MaxImages int32
	// Port is the port of the kubelet API. Zero means that it is not served.
	Port int32

	// Runtime returns the runtime's name and version, such as "containerd" and "2.2.1".
	Runtime func() (name, version string)
	// Health returns the runtime's health.
	Health func() cri.Health
	Images func(ctx context.Context) ([]*runtimeapi.Image, error)
	// Pressure returns the resources under pressure, or nil while they are unknown. Without the
	// function there is no eviction and no pressure.
	Pressure func() *nodestatus.Pressure
	// Plugins returns the resources that plugins provide.
	Plugins func() map[v1.ResourceName]nodestatus.Amount
	// VolumesInUse returns the attachable volumes in use, or nil while they are unknown.
	VolumesInUse func() []v1.UniqueVolumeName
	// Declared returns the features to declare, or nil while they are unknown; see func Declared.
	// Without the function there are none.
	Declared func() []string
	// Logger receives facts that cannot be read. Default: discard.
	Logger *slog.Logger
}

// Gatherer reads the facts about a node. Create it with NewGatherer. It is safe for concurrent use.
type Gatherer struct {
	cfg GathererConfig

	mu    sync.Mutex
	fault string
	last  nodestatus.Machine
}

// NewGatherer checks the configuration.
func NewGatherer(cfg GathererConfig) (*Gatherer, error) {
	if err := fields.Required("node: GathererConfig.Root", cfg.Root); err != nil {
		return nil, err
	}
	fields.Logger(&cfg.Logger)
	return &Gatherer{cfg: cfg}, nil
}

// Facts returns the current facts. If the machine cannot be read, the node is not ready, with the
// error as reason. If the images cannot be read, the status keeps its images.
func (g *Gatherer) Facts(ctx context.Context) nodestatus.Facts {
	c := &g.cfg
	f := nodestatus.Facts{
		Port:           c.Port,
		MaxPods:        int64(c.MaxPods),
		PodsPerCore:    int64(c.PodsPerCore),
		MaxImages:      int(c.MaxImages),
		Pressure:       &nodestatus.Pressure{},
		NoLocalStorage: c.Storage == nil,
	}
	machine, err := g.machine()
	if err != nil {
		f.NotReady = append(f.NotReady, "machine: "+err.Error())
	}
	f.Machine, f.Reserved = machine, g.reserved(machine)
	var images error
	if f.Images, images = g.images(ctx); c.MaxImages == 0 {
		f.Images = []nodestatus.Image{}
	}
	g.report(errors.Join(err, images))
	g.versions(&f)
	g.runtime(&f)
	g.rest(&f)
	return f
}

// reserved returns the reserved resources of the machine, or of the last known machine if m is nil.
func (g *Gatherer) reserved(m *nodestatus.Machine) v1.ResourceList {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m != nil {
		g.last = *m
	}
	return g.cfg.Reserved.Of(&g.last)
}

func (g *Gatherer) machine() (*nodestatus.Machine, error) {
	m, err := ReadMachine(g.cfg.Root)
	if err != nil {
		return nil, err
	}
	if g.cfg.Storage != nil {
		if m.Storage, err = g.cfg.Storage(); err != nil {
			return nil, err
		}
	}
	return &m, nil
}

func (g *Gatherer) images(ctx context.Context) ([]nodestatus.Image, error) {
	if g.cfg.Images == nil {
		return nil, nil
	}
	list, err := g.cfg.Images(ctx)
	if err != nil {
		return nil, err
	}
	images := make([]nodestatus.Image, 0, len(list))
	for _, i := range list {
		images = append(images, nodestatus.Image{Digests: i.GetRepoDigests(), Tags: i.GetRepoTags(), Bytes: int64(i.GetSize())})
	}
	return images, nil
}

func (g *Gatherer) versions(f *nodestatus.Facts) {
	versions := ReadVersions(g.cfg.Root)
	versions.Agent = Version
	if g.cfg.Runtime != nil {
		if name, version := g.cfg.Runtime(); name != "" {
			versions.Runtime = name + "://" + version
		}
	}
	f.Versions = &versions
}

// runtime adds the abilities of the runtime after its first good health report.
func (g *Gatherer) runtime(f *nodestatus.Facts) {
	if g.cfg.Health == nil {
		return
	}
	h := g.cfg.Health()
	if h.LastGood.IsZero() {
		return
	}
	f.Handlers = []nodestatus.Handler{}
	for _, handler := range h.Handlers {
		f.Handlers = append(f.Handlers, nodestatus.Handler(handler))
	}
	f.Features = &nodestatus.Features{SupplementalGroupsPolicy: h.Features.SupplementalGroupsPolicy}
}

func (g *Gatherer) rest(f *nodestatus.Facts) {
	c := &g.cfg
	if c.Pressure != nil {
		f.Pressure = c.Pressure()
	}
	if c.Plugins != nil {
		f.Plugins = c.Plugins()
	}
	if c.VolumesInUse != nil {
		f.VolumesInUse = c.VolumesInUse()
	}
	f.Declared = []string{}
	if c.Declared != nil {
		f.Declared = c.Declared()
	}
}

func (g *Gatherer) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if text != g.fault && text != "" {
		g.cfg.Logger.Error("cannot read all facts about this machine", "err", err)
	}
	g.fault = text
}

// Declared returns the features that this node declares to schedulers (KEP-5328): the subset of
// upstream's features in v1.36 that this agent and this runtime support.
func Declared(runtime cri.Features) []string {
	features := []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}
	if runtime.UserNamespacesHostNetwork {
		features = append(features, "UserNamespacesHostNetworkSupport")
	}
	return features
}

// NotReady returns the runtime's reasons why the node is not ready.
func NotReady(h cri.Health) (why []string) {
	switch c := h.RuntimeReady; {
	case c.Ready():
	case c.Reason == cri.ReasonRuntimeDown:
		why = append(why, "container runtime is down")
	case c.Readiness == cri.NotReady:
		why = append(why, fmt.Sprintf("container runtime not ready: %v", conditionText("RuntimeReady", c)))
	default:
		why = append(why, "container runtime status check may not have completed yet")
	}
	if err := NetworkReady(h); err != nil {
		why = append(why, err.Error())
	}
	return why
}

// NetworkReady returns an error with upstream's text unless the runtime's network is ready.
func NetworkReady(h cri.Health) error {
	switch c := h.NetworkReady; {
	case c.Ready():
		return nil
	case c.Readiness == cri.NotReady:
		return fmt.Errorf("container runtime network not ready: %v", conditionText("NetworkReady", c))
	default:
		return errors.New("network state unknown")
	}
}

func conditionText(name string, c cri.Condition) string {
	return fmt.Sprintf("%s=%t reason:%s message:%v", name, c.Ready(), c.Reason, c.Message)
}
