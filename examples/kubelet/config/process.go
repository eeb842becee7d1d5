package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
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
	if k.Tracing != nil && k.Tracing.Endpoint != nil {
		err := checkTarget(*k.Tracing.Endpoint)
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
