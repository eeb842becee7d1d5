package agent

import (
	"github.com/podwright/podwright/cri/logs"
)

func newRotator(cfg *Config, conn *Connection) (*logs.Rotator, error) {
	k := &cfg.Kubelet
	size, err := logSize(k)
	if err != nil {
		return nil, err
	}
	return logs.NewRotator(logs.RotatorConfig{
		Owner:    owner,
		Runtime:  conn.Runtime,
		MaxSize:  size,
		MaxFiles: int(*k.ContainerLogMaxFiles),
		Workers:  int(*k.ContainerLogMaxWorkers),
		Period:   k.ContainerLogMonitorInterval.Duration,
		OnRotate: cfg.Metrics.Pods.Rotated,
		Logger:   cfg.Logger,
	})
}
