package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/logging"
)

func setProcess(k *kubeletv1beta1.KubeletConfiguration) {
	setNil(&k.OOMScoreAdj, -999)
	set(&k.MaxOpenFiles, 1_000_000)
	set(&k.Logging.Format, logging.Text)
	if k.Logging.FlushFrequency.Duration.Duration == 0 {
		k.Logging.FlushFrequency = logsapi.TimeOrMetaDuration{Duration: metav1.Duration{Duration: 5 * time.Second}, SerializeAsString: true}
	}
	setNil(&k.MakeIPTablesUtilChains, true)
}

func (p *problems) process(k *kubeletv1beta1.KubeletConfiguration) {
	p.refuse(*k.OOMScoreAdj < -1000 || *k.OOMScoreAdj > 1000, "oomScoreAdj: %d is not within -1000 and 1000", *k.OOMScoreAdj)
	p.refuse(k.MaxOpenFiles < 0, "maxOpenFiles: %d is negative", k.MaxOpenFiles)
	format, flush := k.Logging.Format, k.Logging.FlushFrequency.Duration.Duration
	p.refuse(format != logging.Text && format != logging.JSON, "logging.format: %q is neither %s nor %s", format, logging.Text, logging.JSON)
	p.refuse(flush <= 0, "logging.flushFrequency: %s is not positive", flush)
	if k.Tracing != nil {
		p.tracing(k.Tracing)
	}
}

// perMillion is the sampling rate that samples all spans.
const perMillion = 1_000_000

func (p *problems) tracing(t *tracingapi.TracingConfiguration) {
	if rate := t.SamplingRatePerMillion; rate != nil {
		p.refuse(*rate < 0 || *rate > perMillion, "tracing.samplingRatePerMillion: %d is not within 0 and %d", *rate, perMillion)
	}
	if t.Endpoint != nil {
		err := checkTarget(*t.Endpoint)
		p.refuse(err != nil, "tracing.endpoint: %w", err)
	}
}

// checkTarget returns an error for a collector address that gRPC cannot use.
func checkTarget(target string) error {
	if !strings.Contains(target, "//") {
		target = "dns://" + target
	}
	where, err := url.Parse(target)
	if err != nil {
		return err
	}
	switch where.Scheme {
	case "dns", "unix", "unix-abstract":
		return nil
	}
	return fmt.Errorf("scheme %q must be one of dns, unix, unix-abstract", where.Scheme)
}
