package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// gateTwins is the flag of the feature gates: it wins over the file gate by gate.
var gateTwins = []twin{{
	name:  "feature-gates",
	usage: "feature gates of Kubernetes, as NAME=true,NAME=false; those that would change what this kubelet does are refused by name",
	set: func(k *kubeletv1beta1.KubeletConfiguration, text string) error {
		if k.FeatureGates == nil {
			k.FeatureGates = map[string]bool{}
		}
		var errs []error
		for pair := range strings.SplitSeq(text, ",") {
			if pair = strings.TrimSpace(pair); pair == "" {
				continue
			}
			name, value, _ := strings.Cut(pair, "=")
			on, err := strconv.ParseBool(strings.TrimSpace(value))
			if err != nil {
				errs = append(errs, fmt.Errorf("%q is neither NAME=true nor NAME=false", pair))
			}
			k.FeatureGates[strings.TrimSpace(name)] = on
		}
		return errors.Join(errs...)
	},
}}
