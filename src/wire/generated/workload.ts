import type * as grpc from '@grpc/grpc-js';
import type { EnumTypeDefinition, MessageTypeDefinition } from '@grpc/proto-loader';

import type { Any as _google_protobuf_Any, Any__Output as _google_protobuf_Any__Output } from './google/protobuf/Any.js';
import type { BoolValue as _google_protobuf_BoolValue, BoolValue__Output as _google_protobuf_BoolValue__Output } from './google/protobuf/BoolValue.js';
import type { BytesValue as _google_protobuf_BytesValue, BytesValue__Output as _google_protobuf_BytesValue__Output } from './google/protobuf/BytesValue.js';
import type { DoubleValue as _google_protobuf_DoubleValue, DoubleValue__Output as _google_protobuf_DoubleValue__Output } from './google/protobuf/DoubleValue.js';
import type { FloatValue as _google_protobuf_FloatValue, FloatValue__Output as _google_protobuf_FloatValue__Output } from './google/protobuf/FloatValue.js';
import type { Int32Value as _google_protobuf_Int32Value, Int32Value__Output as _google_protobuf_Int32Value__Output } from './google/protobuf/Int32Value.js';
import type { Int64Value as _google_protobuf_Int64Value, Int64Value__Output as _google_protobuf_Int64Value__Output } from './google/protobuf/Int64Value.js';
import type { StringValue as _google_protobuf_StringValue, StringValue__Output as _google_protobuf_StringValue__Output } from './google/protobuf/StringValue.js';
import type { UInt32Value as _google_protobuf_UInt32Value, UInt32Value__Output as _google_protobuf_UInt32Value__Output } from './google/protobuf/UInt32Value.js';
import type { UInt64Value as _google_protobuf_UInt64Value, UInt64Value__Output as _google_protobuf_UInt64Value__Output } from './google/protobuf/UInt64Value.js';
import type { Address as _istio_workload_Address, Address__Output as _istio_workload_Address__Output } from './istio/workload/Address.js';
import type { ApplicationTunnel as _istio_workload_ApplicationTunnel, ApplicationTunnel__Output as _istio_workload_ApplicationTunnel__Output } from './istio/workload/ApplicationTunnel.js';
import type { Extension as _istio_workload_Extension, Extension__Output as _istio_workload_Extension__Output } from './istio/workload/Extension.js';
import type { GatewayAddress as _istio_workload_GatewayAddress, GatewayAddress__Output as _istio_workload_GatewayAddress__Output } from './istio/workload/GatewayAddress.js';
import type { LoadBalancing as _istio_workload_LoadBalancing, LoadBalancing__Output as _istio_workload_LoadBalancing__Output } from './istio/workload/LoadBalancing.js';
import type { Locality as _istio_workload_Locality, Locality__Output as _istio_workload_Locality__Output } from './istio/workload/Locality.js';
import type { NamespacedHostname as _istio_workload_NamespacedHostname, NamespacedHostname__Output as _istio_workload_NamespacedHostname__Output } from './istio/workload/NamespacedHostname.js';
import type { NetworkAddress as _istio_workload_NetworkAddress, NetworkAddress__Output as _istio_workload_NetworkAddress__Output } from './istio/workload/NetworkAddress.js';
import type { Port as _istio_workload_Port, Port__Output as _istio_workload_Port__Output } from './istio/workload/Port.js';
import type { PortList as _istio_workload_PortList, PortList__Output as _istio_workload_PortList__Output } from './istio/workload/PortList.js';
import type { Service as _istio_workload_Service, Service__Output as _istio_workload_Service__Output } from './istio/workload/Service.js';
import type { WeightedWaypoint as _istio_workload_WeightedWaypoint, WeightedWaypoint__Output as _istio_workload_WeightedWaypoint__Output } from './istio/workload/WeightedWaypoint.js';
import type { Workload as _istio_workload_Workload, Workload__Output as _istio_workload_Workload__Output } from './istio/workload/Workload.js';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  google: {
    protobuf: {
      Any: MessageTypeDefinition<_google_protobuf_Any, _google_protobuf_Any__Output>
      BoolValue: MessageTypeDefinition<_google_protobuf_BoolValue, _google_protobuf_BoolValue__Output>
      BytesValue: MessageTypeDefinition<_google_protobuf_BytesValue, _google_protobuf_BytesValue__Output>
      DoubleValue: MessageTypeDefinition<_google_protobuf_DoubleValue, _google_protobuf_DoubleValue__Output>
      FloatValue: MessageTypeDefinition<_google_protobuf_FloatValue, _google_protobuf_FloatValue__Output>
      Int32Value: MessageTypeDefinition<_google_protobuf_Int32Value, _google_protobuf_Int32Value__Output>
      Int64Value: MessageTypeDefinition<_google_protobuf_Int64Value, _google_protobuf_Int64Value__Output>
      StringValue: MessageTypeDefinition<_google_protobuf_StringValue, _google_protobuf_StringValue__Output>
      UInt32Value: MessageTypeDefinition<_google_protobuf_UInt32Value, _google_protobuf_UInt32Value__Output>
      UInt64Value: MessageTypeDefinition<_google_protobuf_UInt64Value, _google_protobuf_UInt64Value__Output>
    }
  }
  istio: {
    workload: {
      Address: MessageTypeDefinition<_istio_workload_Address, _istio_workload_Address__Output>
      AppProtocol: EnumTypeDefinition
      ApplicationTunnel: MessageTypeDefinition<_istio_workload_ApplicationTunnel, _istio_workload_ApplicationTunnel__Output>
      Extension: MessageTypeDefinition<_istio_workload_Extension, _istio_workload_Extension__Output>
      GatewayAddress: MessageTypeDefinition<_istio_workload_GatewayAddress, _istio_workload_GatewayAddress__Output>
      IPFamilies: EnumTypeDefinition
      LoadBalancing: MessageTypeDefinition<_istio_workload_LoadBalancing, _istio_workload_LoadBalancing__Output>
      Locality: MessageTypeDefinition<_istio_workload_Locality, _istio_workload_Locality__Output>
      NamespacedHostname: MessageTypeDefinition<_istio_workload_NamespacedHostname, _istio_workload_NamespacedHostname__Output>
      NetworkAddress: MessageTypeDefinition<_istio_workload_NetworkAddress, _istio_workload_NetworkAddress__Output>
      NetworkMode: EnumTypeDefinition
      Port: MessageTypeDefinition<_istio_workload_Port, _istio_workload_Port__Output>
      PortList: MessageTypeDefinition<_istio_workload_PortList, _istio_workload_PortList__Output>
      Service: MessageTypeDefinition<_istio_workload_Service, _istio_workload_Service__Output>
      TunnelProtocol: EnumTypeDefinition
      WeightedWaypoint: MessageTypeDefinition<_istio_workload_WeightedWaypoint, _istio_workload_WeightedWaypoint__Output>
      Workload: MessageTypeDefinition<_istio_workload_Workload, _istio_workload_Workload__Output>
      WorkloadStatus: EnumTypeDefinition
      WorkloadType: EnumTypeDefinition
    }
  }
}

