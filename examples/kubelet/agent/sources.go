package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver/pods"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// The names of pod sources, as in upstream's annotation.
const (
	fileSource = "file"
	httpSource = "http"
	apiSource  = pods.SourceName
)

type sources struct {
	merger *podsource.Merger
	files  *podsource.FileSource // nil without a manifest path
	web    *podsource.HTTPSource // nil without a manifest URL
	api    *pods.Source          // nil without an API server
}

func (s *sources) open(cfg *Config, folders folders, recorder recorder, c *cluster) (err error) {
	k := &cfg.Kubelet
	merged := podsource.MergerConfig{Event: recorder.event, Logger: cfg.Logger}
	if k.StaticPodPath == "" && k.StaticPodURL == "" && c == nil {
		// A source that never reports keeps running pods.
		merged.Sources = []string{fileSource}
	}
	if s.merger, err = podsource.NewMerger(merged); err != nil {
		return err
	}
	running := takeover{folders: folders, logs: k.PodLogsDir, log: cfg.Logger}
	decoder := podsource.Decoder{NodeName: cfg.Flags.NodeName, Check: cfg.unsupported, Volumes: volumeKinds, UID: running.uid}
	if cfg.Flags.ObjectsDir != "" {
		decoder.Objects = objectKinds
	}
	if k.StaticPodPath != "" {
		s.files, err = podsource.NewFileSource(podsource.FileConfig{
			Path:     k.StaticPodPath,
			Merger:   s.merger,
			Source:   fileSource,
			Decoder:  decoder,
			Period:   k.FileCheckFrequency.Duration,
			StateDir: folders.manifests(),
			Logger:   cfg.Logger,
		})
	}
	if err == nil && c != nil {
		s.api, err = c.newPods(cfg, s.merger)
	}
	if err != nil || k.StaticPodURL == "" {
		return err
	}
	s.web, err = podsource.NewHTTPSource(podsource.HTTPConfig{
		URL:     k.StaticPodURL,
		Header:  k.StaticPodURLHeader,
		Merger:  s.merger,
		Source:  httpSource,
		Decoder: decoder,
		Period:  k.HTTPCheckFrequency.Duration,
		Logger:  cfg.Logger,
	})
	return err
}

func (s *sources) events() map[string]syncloop.EventSource {
	out := map[string]syncloop.EventSource{}
	if s.files != nil {
		out[fileSource] = s.files
	}
	if s.web != nil {
		out[httpSource] = s.web
	}
	if s.api != nil {
		out[apiSource] = s.api
	}
	return out
}

// run reads the sources until ctx is done, before the loop does so. A failed source does not stop
// the rest.
func (s *sources) run(ctx context.Context) error {
	var reading run.Group
	errs := make(chan error, 3)
	for name, source := range s.events() {
		reading.Go(name, func() {
			errs <- run.Guard("pod source "+name, func() error { return source.Run(ctx, func(syncloop.Event) {}) })
		})
	}
	<-reading.Idle()
	close(errs)
	var failed error
	for err := range errs {
		failed = errors.Join(failed, err)
	}
	return failed
}

// podsRead returns the pods that the sources name, including pods that the loop has not handled,
// and the names of the sources that were not read yet. It returns an error if no source was read.
func (s *sources) podsRead() (pods map[types.UID]*v1.Pod, silent []string, err error) {
	pods = map[types.UID]*v1.Pod{}
	all := slices.Sorted(maps.Keys(s.events()))
	for _, name := range all {
		set, delivered := s.merger.Pods(name)
		if !delivered {
			silent = append(silent, name)
		}
		for _, pod := range set {
			pods[pod.UID] = pod
		}
	}
	if len(all) > 0 && len(silent) == len(all) {
		return nil, nil, errors.New(unreadText(silent))
	}
	return pods, silent, nil
}

func unreadText(silent []string) string {
	quoted := make([]string, len(silent))
	for i, name := range silent {
		quoted[i] = strconv.Quote(name)
	}
	return fmt.Sprintf("pod source %s has not been read yet", strings.Join(quoted, " and "))
}

// origin returns the file or the URL of a pod's manifest, or "" if no manifest source names the
// pod.
func (s *sources) origin(pod types.UID) string {
	if s.files != nil {
		if path := s.files.Origin(pod); path != "" {
			return path
		}
	}
	if s.web != nil {
		return s.web.Origin(pod)
	}
	return ""
}

func (s *sources) manifestProblems() []podsource.Problem {
	var problems []podsource.Problem
	if s.files != nil {
		problems = append(problems, s.files.Problems()...)
	}
	if s.web != nil {
		problems = append(problems, s.web.Problems()...)
	}
	return problems
}

// health returns an error if reading manifests hangs, such as on a link to a device.
func (s *sources) health() error {
	if s.files == nil {
		return nil
	}
	return s.files.CheckHealth()
}
