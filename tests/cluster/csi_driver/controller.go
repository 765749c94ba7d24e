package main

import (
	"context"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const unasked = 64 << 20 // A volume that nobody gave a size.

func (d *driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_RPC{Type: kind}
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc},
		})
	}
	return response, nil
}

// A volume's id is the name that the provisioner gives it, which has the claim's uid: asked twice, it is one.
func (d *driver) CreateVolume(
	_ context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	if err := supported(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	if request.GetVolumeContentSource() != nil {
		return nil, status.Error(codes.InvalidArgument, "volumes begin empty")
	}
	volume, err := d.volume(request.GetName())
	if err != nil {
		return nil, err
	}
	size, err := d.wanted(request.GetCapacityRange(), unasked)
	if err != nil {
		return nil, err
	}
	if mounted(volume) {
		has, err := stats(volume)
		if err != nil {
			return nil, err
		}
		if has.total != size {
			return nil, status.Errorf(codes.AlreadyExists, "%s has %d bytes", request.GetName(), has.total)
		}
	} else if err := create(volume, size); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: request.GetName(), CapacityBytes: size,
	}}, nil
}

func (d *driver) DeleteVolume(
	_ context.Context, request *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	volume, err := d.volume(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, unmount(volume)
}

func (d *driver) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if _, err := d.existing(request.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := supported(request.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: request.GetVolumeCapabilities(),
		},
	}, nil
}

// The file system grows where it is in use, as that of a disk does: until then the claim waits for its node.
func (d *driver) ControllerExpandVolume(
	_ context.Context, request *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	_, _, size, err := d.larger(request.GetVolumeId(), request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: size, NodeExpansionRequired: true,
	}, nil
}

// larger is where a volume is, the size that it has, and the one to give it: never less.
func (d *driver) larger(id string, given *csi.CapacityRange) (volume string, has, size int64, err error) {
	if volume, err = d.existing(id); err != nil {
		return "", 0, 0, err
	}
	found, err := stats(volume)
	if err != nil {
		return "", 0, 0, err
	}
	size, err = d.wanted(given, found.total)
	return volume, found.total, max(size, found.total), err
}

// wanted is the size to give, in whole pages.
func (d *driver) wanted(given *csi.CapacityRange, without int64) (int64, error) {
	size, page := given.GetRequiredBytes(), int64(os.Getpagesize())
	if size == 0 {
		size = without
	}
	size = (size + page - 1) / page * page
	if most := given.GetLimitBytes(); most != 0 && size > most {
		return 0, status.Errorf(codes.OutOfRange, "%d bytes are more than the limit %d", size, most)
	}
	if d.most != 0 && size > d.most {
		return 0, status.Errorf(codes.OutOfRange, "%d bytes are more than a volume can have, %d", size, d.most)
	}
	return size, nil
}

func supported(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return status.Error(codes.InvalidArgument, "a volume capability is required")
	}
	for _, capability := range capabilities {
		if capability.GetMount() == nil {
			return status.Error(codes.InvalidArgument, "volumes are file systems alone")
		}
	}
	return nil
}
