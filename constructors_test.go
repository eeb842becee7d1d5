package podwright_test

import (
	"embed"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
	"github.com/podwright/podwright/volume/objects"
)

// of returns the error of a constructor.
func of[T any](_ T, err error) error { return err }

func withSource(s syncloop.EventSource) error {
	return of(syncloop.New(syncloop.Config{
		Handler: &syncloop.DefaultHandler{}, Pods: &podsource.Merger{}, Sources: map[string]syncloop.EventSource{"s": s},
	}))
}

// Errors of constructors have one form: the package, the field, and that it is required. An
// interface value with a nil pointer counts as missing.
func TestConstructors(t *testing.T) {
	var (
		runtime  *fake.Runtime
		observer *observe.Observer
		manager  *pods.Manager
		workers  *podworkers.Workers
		sourceOf *podsource.Merger
		handler  *syncloop.DefaultHandler
		syncer   *podsyncer.Syncer
		command  *exec.Prober
		pulls    *images.Manager
		listener *net.TCPListener
		files    *embed.FS
		secrets  *objects.Memory
		source   *podsource.HTTPSource
	)
	for name, errs := range map[string][]error{
		"cri: HealthConfig.Runtime":              {of(cri.NewHealthMonitor(cri.HealthConfig{})), of(cri.NewHealthMonitor(cri.HealthConfig{Runtime: runtime}))},
		"logs: RotatorConfig.Runtime":            {of(logs.NewRotator(logs.RotatorConfig{})), of(logs.NewRotator(logs.RotatorConfig{Runtime: runtime}))},
		"pods: Config.Runtime":                   {of(pods.New(pods.Config{})), of(pods.New(pods.Config{Runtime: runtime}))},
		"pods: Config.Images":                    {of(pods.New(pods.Config{})), of(pods.New(pods.Config{Images: pulls}))},
		"pods: Config.RuntimeName":               {of(pods.New(pods.Config{}))},
		"observe: Config.Runtime":                {of(observe.New(observe.Config{})), of(observe.New(observe.Config{Runtime: runtime}))},
		"garbage: Config.Runtime":                {of(garbage.New(garbage.Config{})), of(garbage.New(garbage.Config{Runtime: runtime}))},
		"garbage: Config.Pods":                   {of(garbage.New(garbage.Config{})), of(garbage.New(garbage.Config{Pods: manager}))},
		"hooks: Config.Exec":                     {of(hooks.New(hooks.Config{})), of(hooks.New(hooks.Config{Exec: runtime}))},
		"resize: Config.Runtime":                 {of(resize.New(resize.Config{})), of(resize.New(resize.Config{Runtime: runtime}))},
		"resize: Config.Requests":                {of(resize.New(resize.Config{}))},
		"pods: UserNamespacesConfig.PodDir":      {of(pods.NewUserNamespaces(pods.UserNamespacesConfig{}))},
		"images: Config.Service":                 {of(images.New(images.Config{})), of(images.New(images.Config{Service: runtime}))},
		"gc: Config.Images":                      {of(gc.New(gc.Config{})), of(gc.New(gc.Config{Images: runtime}))},
		"gc: Config.Containers":                  {of(gc.New(gc.Config{})), of(gc.New(gc.Config{Containers: runtime}))},
		"credentials: PullSecretsConfig.Secrets": {of(credentials.NewPullSecrets(credentials.PullSecretsConfig{})), of(credentials.NewPullSecrets(credentials.PullSecretsConfig{Secrets: secrets}))},
		"stats: CollectorConfig.Runtime":         {of(stats.NewCollector(stats.CollectorConfig{})), of(stats.NewCollector(stats.CollectorConfig{Runtime: runtime}))},
		"stats: Config.FS":                       {of(stats.New(stats.Config{})), of(stats.New(stats.Config{FS: files}))},
		"exec: Config.Runtime":                   {of(exec.New(exec.Config{})), of(exec.New(exec.Config{Runtime: runtime}))},
		"pleg: Config.Runtime":                   {of(pleg.New(pleg.Config{})), of(pleg.New(pleg.Config{Runtime: observer}))},
		"podworkers: Config.Syncer":              {of(podworkers.New(podworkers.Config{})), of(podworkers.New(podworkers.Config{Syncer: syncer}))},
		"syncloop: Config.Handler":               {of(syncloop.New(syncloop.Config{})), of(syncloop.New(syncloop.Config{Handler: handler}))},
		"syncloop: Config.Pods":                  {of(syncloop.New(syncloop.Config{})), of(syncloop.New(syncloop.Config{Pods: sourceOf}))},
		`syncloop: Config.Sources["s"]`:          {withSource(nil), withSource(source)},
		"syncloop: HandlerConfig.Workers":        {of(syncloop.NewHandler(syncloop.HandlerConfig{})), of(syncloop.NewHandler(syncloop.HandlerConfig{Workers: workers}))},
		"stages: ReleaserConfig.List":            {of(stages.NewReleaser(stages.ReleaserConfig{}))},
		"probe: Config.Status":                   {of(probe.New(probe.Config{}))},
		"probe: Config.Probers[exec]":            {of(probe.New(probe.Config{Status: func(types.UID) *v1.PodStatus { return nil }, Probers: map[probe.Handler]probe.Prober{probe.Exec: command}}))},
		"checkpoint: NewStage: store":            {of(checkpoint.NewStage(nil, nil))},
		"checkpoint: NewStage: pods":             {of(checkpoint.NewStage(nil, nil))},
		"podsyncer: Config.Checkpoint":           {of(podsyncer.New(podsyncer.Config{}))},
		"podsource: FileConfig.Merger":           {of(podsource.NewFileSource(podsource.FileConfig{Path: "x"}))},
		"fake: Serve: listener":                  {runtime.Serve(t.Context(), nil), runtime.Serve(t.Context(), listener)},
		"writer: Config.Sinks[0].Sink":           {of(writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "s"}}}))},
	} {
		for _, err := range errs {
			require.Error(t, err, name)
			require.Contains(t, strings.Split(err.Error(), "\n"), name+" is required")
		}
	}
}
