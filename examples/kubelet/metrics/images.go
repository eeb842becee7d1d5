package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
)

// Images counts requests, pulls and removals of images.
type Images struct {
	requested, removed, checked, pluginErrors *prometheus.CounterVec
	pulled, plugins                           *prometheus.HistogramVec
	pluginConfig                              *prometheus.GaugeVec
}

var pullSeconds = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}

func newImages(b *builder) *Images {
	return &Images{
		requested: b.counters("kubelet_image_manager_ensure_image_requests_total", "Number of image requests, by pull policy, whether the image was present, and whether a pull was required.",
			"pull_policy", "present_locally", "pull_required"),
		removed:      b.counters("kubelet_image_garbage_collected_total", "Number of images removed by garbage collection, by reason.", "reason"),
		checked:      b.counters("kubelet_imagemanager_image_mustpull_checks_total", "Number of checks whether a pod may use a present image, by result.", "result"),
		pulled:       b.histograms("kubelet_image_pull_duration_seconds", "Duration of successful image pulls, by image size.", pullSeconds, "image_size_in_bytes"),
		plugins:      b.histograms("kubelet_credential_provider_plugin_duration", "Duration of credential provider runs, in seconds.", nil, "plugin_name"),
		pluginConfig: b.gauges("kubelet_credential_provider_config_info", "Hash of the configuration of credential providers.", "hash"),
		pluginErrors: b.counters("kubelet_credential_provider_plugin_errors_total", "Number of failed credential provider runs.", "plugin_name"),
	}
}

// Callbacks returns the callbacks for package cri/images.
func (i *Images) Callbacks() images.Metrics {
	return images.Metrics{OnRequest: i.request, OnPull: i.pull}
}

func (i *Images) request(policy v1.PullPolicy, present, pull bool) {
	i.requested.WithLabelValues(strings.ToLower(string(policy)), strconv.FormatBool(present), strconv.FormatBool(pull)).Inc()
}

func (i *Images) pull(_ string, took time.Duration, size uint64, err error) {
	if err == nil {
		i.pulled.WithLabelValues(sizeClass(size)).Observe(took.Seconds())
	}
}

// Plugin is the OnExec of credentials.PluginsConfig.
func (i *Images) Plugin(provider string, took time.Duration, err error) {
	i.plugins.WithLabelValues(provider).Observe(took.Seconds())
	if err != nil {
		i.pluginErrors.WithLabelValues(provider).Inc()
	}
}

// PluginConfig records the hash of the configuration of credential providers, of
// credentials.HashPluginConfig.
func (i *Images) PluginConfig(hash string) { i.pluginConfig.WithLabelValues(hash).Set(1) }

// Checked is the Checked of package cri/images/records.
func (i *Images) Checked(result records.Result) { i.checked.WithLabelValues(string(result)).Inc() }

// Removed is the Removed of package cri/images/gc.
func (i *Images) Removed(_ gc.Image, reason gc.Reason) {
	i.removed.WithLabelValues(string(reason)).Inc()
}

// sizeClass returns the size label of an image. As upstream, a size equal to a limit is in the
// class below it.
func sizeClass(size uint64) string {
	const mega = 1 << 20
	if size == 0 {
		return "N/A"
	}
	for _, c := range []struct {
		over uint64
		name string
	}{
		{100 << 10, "GT100GB"}, {60 << 10, "60GB-100GB"}, {40 << 10, "40GB-60GB"}, {30 << 10, "30GB-40GB"}, {20 << 10, "20GB-30GB"},
		{10 << 10, "10GB-20GB"}, {5 << 10, "5GB-10GB"}, {1 << 10, "1GB-5GB"}, {500, "500MB-1GB"}, {100, "100MB-500MB"}, {10, "10MB-100MB"},
	} {
		if size > c.over*mega {
			return c.name
		}
	}
	return "0-10MB"
}
