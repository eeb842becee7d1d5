package agent

import "github.com/podwright/podwright/syncloop/podsource"

// The names of the sources of pods, as upstream has them in an annotation.
const (
	fileSource = "file"
	httpSource = "http"
)

// buildSources builds what says which pods should be there.
func (n *node) buildSources(*Connection) (err error) {
	cfg := podsource.MergerConfig{Event: n.event, Logger: n.cfg.Logger}
	if n.cfg.PodManifestPath == "" && n.cfg.ManifestURL == "" {
		// Nobody says which pods should be there. A source that never reports
		// leaves alone what runs.
		cfg.Sources = []string{fileSource}
	}
	if n.merger, err = podsource.NewMerger(cfg); err != nil {
		return err
	}
	decoder := podsource.Decoder{NodeName: n.cfg.NodeName, Check: n.unsupported, Volumes: []string{"hostPath", "image"}}
	if n.cfg.PodManifestPath != "" {
		n.files, err = podsource.NewFileSource(podsource.FileConfig{
			Path:     n.cfg.PodManifestPath,
			Merger:   n.merger,
			Source:   fileSource,
			Decoder:  decoder,
			Period:   n.cfg.FileCheckFrequency,
			StateDir: n.folders.manifests(),
			Logger:   n.cfg.Logger,
		})
	}
	if err != nil || n.cfg.ManifestURL == "" {
		return err
	}
	n.web, err = podsource.NewHTTPSource(podsource.HTTPConfig{
		URL:     n.cfg.ManifestURL,
		Header:  n.cfg.ManifestURLHeader,
		Merger:  n.merger,
		Source:  httpSource,
		Decoder: decoder,
		Period:  n.cfg.HTTPCheckFrequency,
		Logger:  n.cfg.Logger,
	})
	return err
}

// manifestProblems are what cannot be used of what the sources have.
func (n *node) manifestProblems() []podsource.Problem {
	var problems []podsource.Problem
	if n.files != nil {
		problems = append(problems, n.files.Problems()...)
	}
	if n.web != nil {
		problems = append(problems, n.web.Problems()...)
	}
	return problems
}
