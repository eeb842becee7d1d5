package agent

import (
	"context"
	"slices"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/volume/podfolder"
)

// newStages builds the resources of pods besides containers, and the list of their stages. Garbage
// collection removes logs with their containers. The syncer removes saved statuses.
func (n *node) newStages(ctx context.Context) error {
	cfg := n.in.cfg
	folders, err := podfolder.New(podfolder.Config{Root: n.in.folders.pods()})
	if err != nil {
		return err
	}
	if n.users, err = newUsers(ctx, cfg, folders); err != nil {
		return err
	}
	if n.volumes, err = newVolumes(n.in); err != nil {
		return err
	}
	logs, err := pods.NewLogStage(pods.LogStageConfig{Owner: owner, LogRoot: cfg.Kubelet.PodLogsDir, LinkDir: cfg.Flags.ContainerLogsDir})
	if err != nil {
		return err
	}
	n.stages, err = stages.New(stages.Config{Stages: slices.Concat([]stages.Entry{
		{Name: "folder", Release: stages.Gone, Stage: folders},
		{Name: "users", Release: stages.Stopped, Stage: n.users.Stage()},
	}, n.cgroups.entries(), []stages.Entry{
		{Name: "volumes", Release: stages.Stopped, Stage: n.volumes.manager},
		{Name: "logs", Release: stages.Gone, Stage: logs},
		{Name: "allocation", Release: stages.Gone, Stage: n.in.allocated.Stage()},
	})})
	return err
}
