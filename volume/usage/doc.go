// Package usage measures the bytes and files in volumes, for the Summary API and for the limits
// of emptyDir volumes.
//
// A volume with its own file system, such as a volume in memory, is measured with statfs. A
// folder on the node's disk is walked, which may take long. A common rate limit for all walks
// keeps the load on pods low, and concurrent calls for one volume share a walk. A folder whose
// usage the file system counts (Projects) needs no walk. Each measurement is kept with its age.
// Config.Ask replaces a measurement, for example by the figures of a CSI driver.
//
// An example that runs: ExampleMeter in meter_linux_test.go.
package usage

import (
	"context"
	"time"
)

// Usage is the usage of a volume. A figure below zero is unavailable.
type Usage struct {
	// Bytes is the space on the disk. Files counts files, folders and links, each once,
	// independent of its number of names.
	Bytes, Files int64
	// Capacity is the size of the volume's file system, Available the part that is free for
	// use, both in bytes.
	Capacity, Available int64
	// TotalFiles is the largest number of files of the file system, FreeFiles the number that
	// can still be created. Zero means no limit.
	TotalFiles, FreeFiles int64
	// Measured is the start time of the measurement.
	Measured time.Time
}

// Source is the method of a measurement, named as in upstream's metrics.
type Source string

// Sources.
const (
	// FileSystem is a statfs of the volume's own file system.
	FileSystem Source = "statfs"
	// Project is a project quota of the file system; see Projects.
	Project Source = "fsquota"
	// Walked is a walk through all files.
	Walked Source = "du"
)

// Metrics are callbacks for histograms. Each is optional. They are called concurrently and must
// not block.
type Metrics struct {
	// OnMeasured is called after each measurement of a Meter with its duration. err is nil if
	// it succeeded. It is not called for figures of Config.Ask.
	OnMeasured func(source Source, took time.Duration, err error)
}

// Config configures a Meter. The zero value is valid.
type Config struct {
	// Ask is called first for each volume. It returns ok if it supplies the usage, and an error
	// if no usage is available now. It is called concurrently, but one call at a time per
	// volume. It may leave Measured empty. Optional: without it the Meter measures all volumes.
	Ask     func(ctx context.Context, dir string) (u Usage, ok bool, err error)
	Metrics Metrics
}
